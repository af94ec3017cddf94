/**
 * `npurt/acl`: the calls of pyACL over the emulated device. Integer handles, results as `[value, ret]` with `ret` last; no call ever throws.
 * To add a family: write lib/acl/families/<name>.ts and bind it here.
 */
import { forgetAllocators } from "./allocators";
import { forgetBarriers } from "./barriers";
import { forgetExceptions } from "./exceptions";
import { allocatorCalls } from "./families/allocator";
import { callbackCalls } from "./families/callback";
import { contextCalls } from "./families/context";
import { copyCalls } from "./families/copy";
import { deviceCalls } from "./families/device";
import { deviceInfoCalls } from "./families/device-info";
import { errorCalls, errorRuntimeCalls } from "./families/error";
import { eventCalls } from "./families/event";
import { formatCalls } from "./families/format";
import { indirectCalls } from "./families/indirect";
import { kernelCalls } from "./families/kernel";
import { forgetLabels, labelCalls } from "./families/label";
import { launchCalls } from "./families/launch";
import { managedCalls } from "./families/managed";
import { memoryCalls } from "./families/memory";
import { notifyCalls } from "./families/notify";
import { peerCalls } from "./families/peer";
import { poolCalls } from "./families/pool";
import { forgetRandom, randomCalls } from "./families/random";
import { shareCalls } from "./families/share";
import { virtualCalls } from "./families/virtual-memory";
import { resourceCalls } from "./families/resource";
import { snapshotCalls } from "./families/snapshot";
import { symbolCalls } from "./families/symbol";
import { streamCalls } from "./families/stream";
import { forgetStreamConfigs, streamConfigCalls } from "./families/stream-config";
import { finalizers, systemCalls } from "./families/system";
import { timeoutCalls } from "./families/timeout";
import { uceCalls } from "./families/uce";
import { utilCalls } from "./families/util";
import { forgetKernels } from "./kernels";
import { listeners } from "./last-error";
import { config, storeProcessText } from "./process";
import { forgetPools } from "./pools";
import { forgetReports } from "./reports";
import { forgetSnapshot } from "./snapshot";
import { forgetResources } from "./resources";
import { bind } from "./table";
import { forgetTemporaries } from "./temporaries";

finalizers
  .add(forgetExceptions)
  .add(forgetKernels)
  .add(forgetPools)
  .add(forgetReports)
  .add(forgetResources)
  .add(forgetStreamConfigs)
  .add(forgetBarriers)
  .add(forgetRandom)
  .add(forgetAllocators)
  .add(forgetSnapshot)
  .add(forgetTemporaries)
  .add(forgetLabels);
listeners.add((message) => {
  if (config().errorScope === 1) {
    storeProcessText(message);
  }
});

export const acl = {
  ...bind("", systemCalls),
  ...bind("", errorCalls),
  rt: {
    ...bind("rt.", deviceCalls),
    ...bind("rt.", deviceInfoCalls),
    ...bind("rt.", resourceCalls),
    ...bind("rt.", contextCalls),
    ...bind("rt.", streamCalls),
    ...bind("rt.", streamConfigCalls),
    ...bind("rt.", timeoutCalls),
    ...bind("rt.", eventCalls),
    ...bind("rt.", notifyCalls),
    ...bind("rt.", labelCalls),
    ...bind("rt.", callbackCalls),
    ...bind("rt.", memoryCalls),
    ...bind("rt.", managedCalls),
    ...bind("rt.", allocatorCalls),
    ...bind("rt.", uceCalls),
    ...bind("rt.", copyCalls),
    ...bind("rt.", indirectCalls),
    ...bind("rt.", randomCalls),
    ...bind("rt.", poolCalls),
    ...bind("rt.", formatCalls),
    ...bind("rt.", virtualCalls),
    ...bind("rt.", shareCalls),
    ...bind("rt.", kernelCalls),
    ...bind("rt.", launchCalls),
    ...bind("rt.", symbolCalls),
    ...bind("rt.", peerCalls),
    ...bind("rt.", errorRuntimeCalls),
    ...bind("rt.", snapshotCalls),
  },
  util: bind("util.", utilCalls),
};
