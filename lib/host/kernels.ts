/**
 * Chooses the build of the micro module: the highest that the user allows, that this engine can compile, and that gives the right answers.
 * Wider builds need V8 flags while their code is compiled; the flags are process-wide, so they are set for as short as possible and only on
 * versions of V8 that were tried.
 */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import type { KernelExports } from "./kernel-exports";

export const KERNEL_BUILDS = ["base", "relaxed", "wide"] as const;
export type KernelBuild = (typeof KERNEL_BUILDS)[number];

export interface KernelChoice {
  /** The highest build allowed: the option, else NPURT_KERNELS, else "wide". */
  readonly asked: KernelBuild;
  readonly used: KernelBuild;
  /** Why `used` is lower than `asked`; "" if it is not. */
  readonly why: string;
}

export interface Kernels extends KernelChoice {
  /** One compilation serves all threads: hand this to the cores, unless `coreKernels` has something better for them. */
  readonly module: WebAssembly.Module;
}

/** What a core's thread compiles for itself (lib/host/worker-body.ts): the same bytes everywhere, so V8 compiles them once per process. */
export interface CoreKernels {
  readonly bytes: Uint8Array;
  /** V8 flags for the time of the compilation, and those that put the old values back. */
  readonly flags: readonly string[];
  readonly after: readonly string[];
}

export interface KernelOptions {
  readonly kernels?: string | undefined;
  /** Throw where a lower build would run. */
  readonly strict?: boolean | undefined;
  /** Leave to later what takes milliseconds: the known-answer test, and 256-bit code, which then only the cores have. */
  readonly quick?: boolean | undefined;
}

/** Major and minor of V8 as one number. */
const [major = 0, minor = 0] = process.versions.v8.split(".").map(Number);
const V8_VERSION = major * 100 + minor;
/** First version with relaxed SIMD without a flag, and the oldest where the flag was tried. */
const RELAXED_FREE = 1104;
const RELAXED_TRIED = 1103;
/** First version whose revectoriser does something for us, and the major version up to which its flags were tried: V8 complains aloud about others. */
const REVECTORISE = 1306;
const REVECTORISE_TRIED = 14;

interface Flag {
  readonly name: string;
  /** What V8 has when nobody says otherwise. */
  readonly usual: boolean;
}
const RELAXED: Flag = { name: "experimental-wasm-relaxed-simd", usual: false };
const REVECTORISER: Flag = { name: "experimental-wasm-revectorize", usual: false };
const LAZY: Flag = { name: "wasm-lazy-compilation", usual: true };
const TIERING: Flag = { name: "wasm-dynamic-tiering", usual: true };

const flagText = ({ name }: Flag, on: boolean): string => `--${on ? "" : "no-"}${name}`;

/**
 * Loaded where a flag is needed (with all of node:stream it takes 3 ms). Not by `require` where Node has another way: windows open and close in timers,
 * when a test runner may have taken its `require` away.
 */
const v8 = (): typeof import("node:v8") => process.getBuiltinModule?.("node:v8") ?? (require("node:v8") as typeof import("node:v8"));

function setFlag(flag: Flag, on: boolean): void {
  v8().setFlagsFromString(flagText(flag, on));
}

/** What the user started Node with, as far as it says: V8 has no way to ask for the value of a flag. */
function valueAtStart({ name, usual }: Flag): boolean {
  const words = [...process.execArgv, ...(process.env["NODE_OPTIONS"] ?? "").split(/\s+/)].map((word) => word.replaceAll("_", "-"));
  const said = words.filter((word) => word === `--${name}` || word === `--no-${name}`).at(-1);
  return said === undefined ? usual : said === `--${name}`;
}

/** Runs `work` with the flags set, then puts all of them back but `kept`. */
function withFlags<T>(flags: readonly (readonly [Flag, boolean])[], kept: readonly Flag[], work: () => T): T {
  for (const [flag, on] of flags) setFlag(flag, on);
  try {
    return work();
  } finally {
    for (const [flag] of flags) if (!kept.includes(flag)) setFlag(flag, valueAtStart(flag));
  }
}

const read = (build: KernelBuild): Uint8Array<ArrayBuffer> => fs.readFileSync(path.join(__dirname, `../../asm/micro.${build}.wasm`));

function compileRelaxed(): WebAssembly.Module | string {
  if (V8_VERSION < RELAXED_TRIED) return `V8 ${process.versions.v8} has no relaxed SIMD`;
  const flags = V8_VERSION < RELAXED_FREE ? ([[RELAXED, true]] as const) : [];
  return withFlags(flags, [], () => new WebAssembly.Module(read("relaxed")));
}

/** Whether Linux says that the processor has no 256-bit vectors. Elsewhere nobody says, and `wide` runs: right in any case, but slower than `relaxed`. */
function lacksAvx2(): boolean {
  try {
    const file = fs.openSync("/proc/cpuinfo", "r");
    try {
      // The flags of the first processor are within the first page; the whole file can take milliseconds on a large machine.
      const page = Buffer.alloc(4096);
      const text = page.toString("latin1", 0, fs.readSync(file, page));
      return /^flags\s*:.*\n/m.test(text) && !/^flags\s*:.* avx2 /m.test(text);
    } finally {
      fs.closeSync(file);
    }
  } catch {
    return false;
  }
}

/**
 * V8 reads the revectoriser's flag when optimised code is made, which goes on in the background after compilation: eager and without dynamic
 * tiering it starts at once for all functions, and `whenTieredUp` says when the flag may go back.
 */
function compileWide(eager: boolean): WebAssembly.Module | string {
  if (V8_VERSION < REVECTORISE) return `V8 ${process.versions.v8} cannot make 256-bit code (13.6 can)`;
  if (major > REVECTORISE_TRIED) return `256-bit code was not tried with V8 ${process.versions.v8} (13.6 to ${REVECTORISE_TRIED} were)`;
  if (process.arch !== "x64") return `256-bit code needs x64, this is ${process.arch}`;
  if (lacksAvx2()) return "256-bit code needs AVX2, which this processor does not have";
  if (!eager) return new WebAssembly.Module(read("wide"));
  const { bytes } = wideForCores();
  flagsChanged = true;
  return withFlags(WIDE_FLAGS, [REVECTORISER], () => new WebAssembly.Module(bytes));
}

const WIDE_FLAGS = [
  [REVECTORISER, true],
  [LAZY, false],
  [TIERING, false],
] as const;
/** A custom section "e": V8 keeps compiled modules by their bytes, and must not take the lazily compiled one for this. */
const EAGER_MARK = [0, 2, 1, 0x65];

/** The wide build as whoever wants 256-bit code compiles it: eagerly, with V8's flags set. */
function wideForCores(): CoreKernels {
  const bytes = read("wide");
  const marked = new Uint8Array(bytes.length + EAGER_MARK.length);
  marked.set(bytes);
  marked.set(EAGER_MARK, bytes.length);
  const after = WIDE_FLAGS.filter(([flag]) => flag !== REVECTORISER).map(([flag]) => flagText(flag, valueAtStart(flag)));
  return { bytes: marked, flags: WIDE_FLAGS.map(([flag, on]) => flagText(flag, on)), after };
}

function compile(build: KernelBuild, eager = true): WebAssembly.Module | string {
  try {
    if (build === "wide") return compileWide(eager);
    return build === "relaxed" ? compileRelaxed() : new WebAssembly.Module(read("base"));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The test is loaded when a build needs one. */
const kernelTest = (): typeof import("./kernel-test") => require("./kernel-test") as typeof import("./kernel-test");

/** Compiled builds of this thread, and why one cannot run: the answer does not change while a process lives. */
const known = new Map<KernelBuild, WebAssembly.Module | string>();

/** The module of one build if it compiles and passes its known-answer test, else why not. */
export function kernelModule(build: KernelBuild): WebAssembly.Module | string {
  let found = known.get(build);
  if (found === undefined) {
    found = compile(build);
    // Below base there is nothing to fall to, and the tests of the package cover it: no time is spent on it at open.
    const wrong = typeof found === "string" || build === "base" ? "" : kernelTest().testKernels(found);
    if (build === "wide" && typeof found !== "string") watchTierUp(found);
    if (wrong !== "") found = `its known-answer test failed (${wrong})`;
    known.set(build, found);
  }
  return found;
}

/** Builds that were compiled quickly and wait for their test. */
const quick = new Map<KernelBuild, WebAssembly.Module | string>();
const TEST_DELAY_MS = 1000;

/** As `kernelModule`, within a millisecond: without the test, for which there is `testLater`, and without eager compilation. */
function quickModule(build: KernelBuild): WebAssembly.Module | string {
  let found = known.get(build) ?? quick.get(build);
  if (found === undefined) {
    found = compile(build, false);
    quick.set(build, found);
  }
  return found;
}

/** Tests a build that was chosen quickly, in a second. Returns what calls that off. */
export function testLater({ used, module }: Kernels): () => void {
  if (used === "base" || known.has(used)) return () => {};
  const timer = setTimeout(testLate, TEST_DELAY_MS, used, module);
  timer.unref();
  return () => clearTimeout(timer);
}

function testLate(build: KernelBuild, module: WebAssembly.Module): void {
  kernelTest().testKernelsInTurns(module, (wrong) => tested(build, module, wrong));
}

/** A build that turns out wrong is warned of, and devices that are opened from now on do without it. */
function tested(build: KernelBuild, module: WebAssembly.Module, wrong: string): void {
  if (wrong === "") {
    // The wide module of this thread is the slow form: what is known of `wide` is the fast one.
    if (build !== "wide") known.set(build, module);
    return;
  }
  known.set(build, `its known-answer test failed (${wrong})`);
  process.emitWarning(
    `kernels "${build}" give wrong answers on this engine (${wrong}); set NPURT_KERNELS to a lower build and open the device again`,
    {
      code: "NPURT_KERNELS",
    },
  );
}

/** What the cores of a device compile for themselves in place of `module`, if its build has a faster form that this thread does not have yet. */
export function coreKernels({ used }: KernelChoice): CoreKernels | undefined {
  if (used !== "wide" || known.get("wide") !== undefined) return undefined;
  flagsChanged = true;
  return wideForCores();
}

/** The first core has compiled what `coreKernels` said: this thread takes the same module, and minds the flag that has to go back. */
export function adoptCoreKernels({ used }: KernelChoice): void {
  if (used !== "wide" || known.get("wide") !== undefined) return;
  const module = new WebAssembly.Module(wideForCores().bytes);
  known.set("wide", module);
  watchTierUp(module);
}

/** The module that a core which boots now gets. */
export function moduleNow({ used, module }: Kernels): WebAssembly.Module {
  const tested = known.get(used);
  return tested === undefined || typeof tested === "string" ? module : tested;
}

function askedBuild(option: string | undefined): KernelBuild {
  const [name, place] = option === undefined ? [process.env["NPURT_KERNELS"] || "wide", "NPURT_KERNELS"] : [option, "option kernels"];
  const build = KERNEL_BUILDS.find((one) => one === name);
  if (build === undefined) throw new AclError(107000, `${place} is "${name}"; it must be one of ${KERNEL_BUILDS.join(", ")}`);
  return build;
}

/**
 * The build to run.
 * @throws AclError 107000 for an unknown name
 * @throws AclError 507033 if no build works, or with `strict` if not the one asked for
 */
export function chooseKernels(options: KernelOptions = {}): Kernels {
  const asked = askedBuild(options.kernels);
  const reasons: string[] = [];
  for (let level = KERNEL_BUILDS.indexOf(asked); level >= 0; level--) {
    const used = KERNEL_BUILDS[level]!;
    const module = options.quick ? quickModule(used) : kernelModule(used);
    if (typeof module !== "string") return { asked, used, why: reasons.join("; "), module };
    reasons.push(`${used}: ${module}`);
    if (options.strict) break;
  }
  const advice = options.strict ? `allow a lower build or leave "strict" out` : "install npurt again or run its build";
  throw new AclError(507033, `kernels "${asked}" cannot run (${reasons.join("; ")}); ${advice}`);
}

/** An instance over a device's memory, with its own scratch at `scratch` (MICRO_SCRATCH_BYTES of asm/abi/micro.ts, 64-aligned). */
export function instantiateKernels(module: WebAssembly.Module, memory: WebAssembly.Memory, scratch: number): KernelExports {
  const exports = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as KernelExports;
  exports.bind(scratch);
  return exports;
}

let flagsChanged = false;

/** Whether V8 may have other flags now than this process was started with. */
export const areFlagsChanged = (): boolean => flagsChanged;

let tieredUp: Promise<string> = Promise.resolve("");

/**
 * Resolves when the optimised code of `wide` is in place and the process's flags are as they were: "" if that code too gives the right answers,
 * else the first wrong one. At once where `wide` is not in use.
 */
export function whenTieredUp(): Promise<string> {
  return tieredUp;
}

const TIER_UP_POLL_MS = 20;
const TIER_UP_LIMIT_MS = 3000;
/** Nothing became faster for so many looks. */
const TIER_UP_QUIET = 4;

/** Watches the speed of the module from the outside, since V8 does not tell when background compilation ends. Keeps no process alive. */
function watchTierUp(module: WebAssembly.Module): void {
  const { testKernelsInTurns } = kernelTest();
  tieredUp = new Promise((resolve) => {
    const looks = speedProbe(module);
    const best = looks.map(() => Number.POSITIVE_INFINITY);
    const end = performance.now() + TIER_UP_LIMIT_MS;
    let quiet = 0;
    const timer = setInterval(() => {
      let faster = false;
      looks.forEach((look, index) => {
        const time = look();
        if (time < best[index]! * 0.7) faster = true;
        best[index] = Math.min(best[index]!, time);
      });
      quiet = faster ? 0 : quiet + 1;
      if (quiet < TIER_UP_QUIET && performance.now() < end) return;
      clearInterval(timer);
      setFlag(REVECTORISER, valueAtStart(REVECTORISER));
      flagsChanged = false;
      testKernelsInTurns(module, resolve);
    }, TIER_UP_POLL_MS);
    timer.unref();
  });
}

/** Times of a few functions of different size, in ms: each gets several times faster when its optimised code arrives. */
function speedProbe(module: WebAssembly.Module): (() => number)[] {
  const SCRATCH = 65536;
  const WORK = 6 * 65536;
  const memory = new WebAssembly.Memory({ initial: 11, maximum: 11, shared: true });
  const e = instantiateKernels(module, memory, SCRATCH);
  const time = (work: () => void) => (): number => {
    const start = performance.now();
    work();
    return performance.now() - start;
  };
  return [
    time(() => e.gemm(48, 48, 64, WORK, 256, WORK, 64 * 4 * e.panelColumns(), WORK + 65536, 192, 1)),
    time(() => e.softmaxRows(4, 1024, WORK, 4096, WORK + 65536, 4096)),
    time(() => e.depthwiseRow(5, 1, 28, 32, WORK, 4096, 128, WORK, WORK, WORK + 65536, 128)),
    time(() => e.winogradInput(WORK, 16, 16, 16, 1, 1, 4, 0, 16, WORK + 65536, 1024)),
    time(() => e.gemmInteger(48, 48, 256, WORK, 256, WORK, 256 * e.panelColumns(), WORK + 65536, 192)),
  ];
}
