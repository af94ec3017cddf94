/**
 * Loads the optional addon (native/) and gives it types. Everything that uses it works without it: each caller has its own fallback.
 * NPURT_ADDON=0 switches it off. Results are libuv codes where negative: a refusal by the system is an answer, not an exception.
 */
import path from "node:path";

/** Must equal kVersion in native/addon.h. */
const VERSION = 3;
/** Root of the package, seen from dist/lib/host. */
const ROOT = path.join(__dirname, "../../..");

export interface Addon {
  readonly version: number;
  /** CPUs that the calling thread may run on. */
  affinity(): number[] | number;
  /** Pins the calling thread. 0, or a code: UV_EINVAL when none of the CPUs is allowed here. */
  setAffinity(cpus: readonly number[]): number;
  /** The system's id of the calling thread; 0 where there is none. */
  threadId(): number;
  /** The CPU that the calling thread runs on right now. */
  currentCpu(): number;
  /** Fills `target` from `position` of an open file, off-thread. Resolves to the bytes read, fewer only at the end of the file. */
  readInto(fd: number, target: Uint8Array, position: number): Promise<number>;
  /** Allows huge pages for the whole pages inside `range`. Bytes that were covered. */
  hugePages(range: Uint8Array): number;
  /** Gives the whole pages inside `range` back to the system; they read as zero afterwards. Bytes that were covered. */
  returnPages(range: Uint8Array): number;
  pageBytes(): number;
  /** Copies `sizeBytes` from byte `from` of one typed array to byte `to` of another, at the system's speed. False: one of them has no such bytes. */
  copy(target: ArrayBufferView, to: number, source: ArrayBufferView, from: number, sizeBytes: number): boolean;
  /** A token that any thread may `signal` to have `callback` called by this thread's event loop. Signals merge. Does not keep the process alive. */
  createWaker(callback: () => void): number;
  /** False when that waker is closed. */
  signal(token: number): boolean;
  /** Whether the waker keeps its event loop alive; only on the thread that made it. */
  refWaker(token: number, keep: boolean): void;
  closeWaker(token: number): void;
}

interface Loaded {
  readonly addon: Addon | undefined;
  readonly file?: string;
  readonly why: string;
}

let loaded: Loaded | undefined;

/** The addon, or undefined where it is switched off, absent or broken. Never throws; tries once per thread. */
export function loadAddon(): Addon | undefined {
  loaded ??= tryLoad();
  return loaded.addon;
}

/** The binary, for threads that load it themselves; undefined where `loadAddon` is. */
export function addonFile(): string | undefined {
  loadAddon();
  return loaded?.file;
}

/** Why there is no addon; empty when there is one. For `npurt doctor` and `device.info()`. */
export function addonAbsence(): string {
  loadAddon();
  return loaded?.why ?? "";
}

function tryLoad(): Loaded {
  if (process.env["NPURT_ADDON"] === "0") return { addon: undefined, why: "switched off by NPURT_ADDON=0" };
  let file: string;
  try {
    const nodeGypBuild = require("node-gyp-build") as { resolve(folder: string): string };
    file = nodeGypBuild.resolve(ROOT);
  } catch {
    return { addon: undefined, why: `no binary for ${process.platform}-${process.arch} in the package` };
  }
  try {
    const addon = require(file) as Addon;
    if (addon.version === VERSION) return { addon, file, why: "" };
    return broken(file, `it has version ${addon.version}, this npurt needs ${VERSION}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_DLOPEN_DISABLED") {
      return { addon: undefined, why: "this process may load no addons (--no-addons, or --permission without --allow-addons)" };
    }
    return broken(file, error instanceof Error ? error.message : String(error));
  }
}

/** A binary that is there but cannot be used deserves one warning per process; npurt goes on without it. */
function broken(file: string, reason: string): Loaded {
  const why = `${file} cannot be used: ${reason}`;
  const { isMainThread } = require("node:worker_threads") as typeof import("node:worker_threads");
  if (isMainThread) {
    process.emitWarning(`${why}. npurt goes on without it; reinstall the package, or set NPURT_ADDON=0 to silence this.`, { code: "NPURT_ADDON" });
  }
  return { addon: undefined, why };
}
