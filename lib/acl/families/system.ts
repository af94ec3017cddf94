/** The library itself: init and finalize, versions, what the chip can, numbers of half precision. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { callback, integer, optional, real, text } from "../args";
import { loadConfigText } from "../config";
import { forgetBinding } from "../contexts";
import { closeDevices, devicesHere, physicalIndex } from "../devices";
import { forgetErrors } from "../last-error";
import { config, exclusively, storeConfig, Word, words } from "../process";
import { callUser } from "../states";
import { forgetStreams } from "../streams";
import { call } from "../table";
import { doubleToHalf, halfToDouble } from "../half";
import { logLine } from "../log";

/** The CANN release whose semantics are followed. */
const CANN = { major: 8, minor: 5, patch: 0 } as const;
const CANN_TEXT = `${CANN.major}.${CANN.minor}.${CANN.patch}`;
const PACKAGES = ["CANN", "runtime", "driver", "compiler", "opp", "toolkit", "npurt"];

/** Bytes of an element by ACL dtype; -1 and unknown types have none. */
const DTYPE_BYTES: Readonly<Record<number, number>> = {
  0: 4,
  1: 2,
  2: 1,
  3: 4,
  4: 1,
  6: 2,
  7: 2,
  8: 4,
  9: 8,
  10: 8,
  11: 8,
  12: 1,
  16: 8,
  17: 16,
  27: 2,
  35: 1,
  36: 1,
};

/** Hooks of other modules, by what they are of. */
type Hook = (config: string) => unknown;
const initHooks = new Map<number, Set<Hook>>();
const finalizeHooks = new Map<number, Set<Hook>>();
/** What this thread forgets at finalize. */
export const finalizers = new Set<() => void>();

function runHooks(hooks: Map<number, Set<Hook>>, argument: string): void {
  for (const set of hooks.values()) {
    for (const hook of set) {
      callUser("callback of init or finalize", () => hook(argument));
    }
  }
}

function finalizeAll(): void {
  runHooks(finalizeHooks, "");
  for (const forget of finalizers) {
    forget();
  }
  closeDevices();
  forgetBinding();
  forgetStreams();
  forgetErrors();
}

function init(path: string | undefined): void {
  exclusively(() => {
    if (Atomics.load(words, Word.INIT_COUNT) > 0) {
      Atomics.add(words, Word.INIT_COUNT, 1);
      throw new AclError(100002, "init: the process is initialised already; the configuration of the first call holds, this one may be ignored");
    }
    const json = loadConfigText(path);
    const devices = [...devicesHere()];
    if (devices.length > 0 && json !== "{}") {
      throw new AclError(100002, "init: a device is in use already with the default configuration; call init before set_device");
    }
    storeConfig(json);
    Atomics.store(words, Word.INIT_COUNT, 1);
    runHooks(initHooks, json);
  });
}

function checkInitialised(what: string): void {
  const count = Atomics.load(words, Word.INIT_COUNT);
  if (count === 0) {
    throw new AclError(100037, `${what}: the library is finalized, or was never initialised; call init first`);
  }
}

function register(hooks: Map<number, Set<Hook>>, kind: number, hook: Hook): void {
  const set = hooks.get(kind) ?? new Set();
  hooks.set(kind, set.add(hook));
}

function unregister(hooks: Map<number, Set<Hook>>, kind: number, hook: Hook, what: string): void {
  if (hooks.get(kind)?.delete(hook) !== true) {
    throw new AclError(100000, `${what}: this function is not registered for ${kind}; pass what was registered`);
  }
}

const hookOf = (given: unknown, what: string): Hook => {
  if (typeof given !== "function") {
    throw new AclError(100000, `${what}: pass a function`);
  }
  return given as Hook;
};

export const systemCalls = {
  init: call({
    c: "aclInit",
    args: [optional(text("configPath"))],
    returns: "ret",
    doc: "Initialises the process; the JSON file of the first call holds.",
    run: init,
  }),
  finalize: call({
    c: "aclFinalize",
    args: [],
    returns: "ret",
    doc: "Zeroes the init count and releases everything of this thread.",
    run(): void {
      exclusively(() => {
        checkInitialised("finalize");
        Atomics.store(words, Word.INIT_COUNT, 0);
        finalizeAll();
        Atomics.store(words, Word.CONFIG_LENGTH, 0);
      });
    },
  }),
  finalize_reference: call({
    c: "aclFinalizeReference",
    args: [],
    returns: "[value, ret]",
    doc: "Takes one from the init count and finalizes at 0; returns what is left.",
    none: 0,
    run() {
      return exclusively(() => {
        checkInitialised("finalize_reference");
        const left = Atomics.sub(words, Word.INIT_COUNT, 1) - 1;
        if (left === 0) {
          finalizeAll();
          Atomics.store(words, Word.CONFIG_LENGTH, 0);
        }
        return left;
      });
    },
  }),
  init_callback_register: call({
    c: "aclInitCallbackRegister",
    args: [integer("type"), callback("callback")],
    returns: "ret",
    doc: "Calls the function at init, or at once if the process is initialised.",
    run(kind, given): void {
      const hook = hookOf(given, "init_callback_register");
      register(initHooks, kind, hook);
      if (Atomics.load(words, Word.INIT_COUNT) > 0) {
        callUser("callback of init", () => hook(""));
      }
    },
  }),
  init_callback_unregister: call({
    c: "aclInitCallbackUnRegister",
    args: [integer("type"), callback("callback")],
    returns: "ret",
    doc: "Takes an init hook away.",
    run: (kind, given): void => unregister(initHooks, kind, hookOf(given, "init_callback_unregister"), "init_callback_unregister"),
  }),
  finalize_callback_register: call({
    c: "aclFinalizeCallbackRegister",
    args: [integer("type"), callback("callback")],
    returns: "ret",
    doc: "Calls the function at finalize.",
    run: (kind, given): void => register(finalizeHooks, kind, hookOf(given, "finalize_callback_register")),
  }),
  finalize_callback_unregister: call({
    c: "aclFinalizeCallbackUnRegister",
    args: [integer("type"), callback("callback")],
    returns: "ret",
    doc: "Takes a finalize hook away.",
    run: (kind, given): void => unregister(finalizeHooks, kind, hookOf(given, "finalize_callback_unregister"), "finalize_callback_unregister"),
  }),
  get_version: call({
    c: "aclrtGetVersion",
    args: [],
    returns: "[...values, ret]",
    doc: "Version of the API that is followed: major, minor, patch.",
    none: [0, 0, 0],
    run: (): [number, number, number] => [1, 17, 0],
  }),
  get_version_str: call({
    c: "aclsysGetVersionStr",
    args: [text("package")],
    returns: "[value, ret]",
    doc: "Version of a package as text.",
    none: "",
    run: (name) => versionOf(name, "get_version_str"),
  }),
  get_version_num: call({
    c: "aclsysGetVersionNum",
    args: [text("package")],
    returns: "[value, ret]",
    doc: "Version of a package as major * 1e7 + minor * 1e5 + patch * 1e3.",
    none: 0,
    run(name) {
      const [major = 0, minor = 0, patch = 0] = versionOf(name, "get_version_num")
        .split(".")
        .map((part) => Number.parseInt(part, 10));
      return major * 1e7 + minor * 1e5 + patch * 1e3;
    },
  }),
  get_cann_version: call({
    c: "aclsysGetCANNVersion",
    args: [integer("package")],
    returns: "[value, ret]",
    doc: "Version of a CANN package (0 to 8) as an object.",
    none: {},
    run(id): object {
      if (id < 0 || id > 8) {
        throw invalidParam(`get_cann_version: package ${id} is unknown; pass 0 to 8`);
      }
      return {
        version: CANN_TEXT,
        major_version: String(CANN.major),
        minor_version: String(CANN.minor),
        patch_version: String(CANN.patch),
        release_version: "0",
      };
    },
  }),
  get_soc_name: call({
    c: "aclrtGetSocName",
    args: [],
    returns: "value",
    doc: "Name of the chip.",
    none: "",
    run: () => config().soc.name,
  }),
  data_type_size: call({
    c: "aclDataTypeSize",
    args: [integer("dtype")],
    returns: "value",
    doc: "Bytes of an element of the dtype; 0 if it has no whole number of bytes or is unknown.",
    none: 0,
    run: (dtype) => DTYPE_BYTES[dtype] ?? 0,
  }),
  float16_to_float: call({
    c: "aclFloat16ToFloat",
    args: [integer("bits")],
    returns: "value",
    doc: "The number that 16 bits of half precision stand for.",
    none: 0,
    run: (bits) => halfToDouble(bits & 0xffff),
  }),
  float_to_float16: call({
    c: "aclFloatToFloat16",
    args: [real("value")],
    returns: "value",
    doc: "The 16 bits of half precision next to a number; NaN and what is out of range become +-65504.",
    none: 0,
    run: (value) => doubleToHalf(value),
  }),
  get_cann_attribute_list: call({
    c: "aclGetCannAttributeList",
    args: [],
    returns: "[...values, ret]",
    doc: "Attributes that get_cann_attribute knows, and their number.",
    none: [[], 0],
    run: (): [number[], number] => [[0, 1, 2], 3],
  }),
  get_cann_attribute: call({
    c: "aclGetCannAttribute",
    args: [integer("attribute")],
    returns: "[value, ret]",
    doc: "1 if INF_NAN (0), BF16 (1), JIT_COMPILE (2) is supported.",
    none: 0,
    run: (attribute) => attributeOf(attribute, "get_cann_attribute"),
  }),
  get_device_capability: call({
    c: "aclGetDeviceCapability",
    args: [integer("deviceId"), integer("info")],
    returns: "[value, ret]",
    doc: "The same attributes, of one device.",
    none: 0,
    run(id, info) {
      physicalIndex(id, "get_device_capability");
      return attributeOf(info, "get_device_capability");
    },
  }),
  app_log: call({
    c: "aclAppLog",
    args: [integer("level"), text("message")],
    returns: "value",
    doc: "Writes a line into the log, if the level (0 debug to 3 error) is on.",
    none: undefined,
    run: (level, message): undefined => {
      logLine(level, "APP", message);
      return undefined;
    },
  }),
};

function versionOf(name: string, what: string): string {
  if (!PACKAGES.some((known) => known.toLowerCase() === name.toLowerCase())) {
    throw invalidParam(`${what}: package "${name}" is unknown; pass one of ${PACKAGES.join(", ")}`);
  }
  // From dist/lib/acl/families, four folders up.
  return name.toLowerCase() === "npurt" ? (require("../../../../package.json") as { version: string }).version : CANN_TEXT;
}

function attributeOf(attribute: number, what: string): number {
  switch (attribute) {
    case 0:
    case 1:
      return config().soc.modern ? 1 : 0;
    case 2:
      return 0; // models are compiled ahead of their first run
    default:
      throw new AclError(100000, `${what}: attribute ${attribute} is unknown; pass 0 (INF_NAN), 1 (BF16) or 2 (JIT_COMPILE)`);
  }
}
