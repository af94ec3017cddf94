/** `npurt/acl`: the calls of pyACL over the emulated device. Integer handles, results as `[value, ret]` with `ret` last, no exceptions but TypeError for wrong types. */
import { contextCalls } from "./families/context";
import { deviceCalls } from "./families/device";
import { errorCalls, errorRuntimeCalls } from "./families/error";
import { systemCalls } from "./families/system";
import { bind } from "./table";

export const acl = {
  ...bind("", systemCalls),
  ...bind("", errorCalls),
  rt: {
    ...bind("rt.", deviceCalls),
    ...bind("rt.", contextCalls),
    ...bind("rt.", errorRuntimeCalls),
  },
};
