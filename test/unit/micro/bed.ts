/** A test bed for the micro module: every build that this Node can run, over a memory of its own, with float64 references beside it. */
import { MICRO_SCRATCH_BYTES } from "../../../dist/asm/abi/micro";
import type { KernelExports } from "../../../dist/lib/host/kernel-exports";
import { instantiateKernels, KERNEL_BUILDS, type KernelBuild, kernelModule } from "../../../dist/lib/host/kernels";

/** Addresses start here; all below is scratch and a guard. */
const FIRST = 6 * 65536;
const PAGES = 256;
/** Bytes before and behind every allocation that must keep their value. */
const GUARD = 64;
const GUARD_BYTE = 0xa5;

export class Bed {
  readonly memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true });
  readonly e: KernelExports;
  readonly f32 = new Float32Array(this.memory.buffer);
  readonly i32 = new Int32Array(this.memory.buffer);
  readonly u32 = new Uint32Array(this.memory.buffer);
  readonly u8 = new Uint8Array(this.memory.buffer);
  #next = FIRST;
  #guards: { from: number; to: number }[] = [];

  constructor(
    readonly build: KernelBuild,
    readonly module: WebAssembly.Module,
  ) {
    expect(MICRO_SCRATCH_BYTES + 1024).toBeLessThan(FIRST);
    this.e = instantiateKernels(module, this.memory, 1024);
    expect(this.e.scratchBytes()).toBe(MICRO_SCRATCH_BYTES);
  }

  reset(): void {
    this.#next = FIRST;
    this.#guards = [];
  }

  /** `bytes` between two guards, 4-aligned but no more, so that nothing may count on more. */
  room(bytes: number): number {
    const start = this.#next + GUARD + 4;
    const end = start + bytes;
    this.u8.fill(GUARD_BYTE, this.#next, start);
    this.u8.fill(GUARD_BYTE, end, end + GUARD);
    this.#guards.push({ from: this.#next, to: start }, { from: end, to: end + GUARD });
    this.#next = (end + GUARD + 63) & -64;
    expect(this.#next).toBeLessThan(this.memory.buffer.byteLength);
    return start;
  }

  floats(values: ArrayLike<number>): number {
    const at = this.room(values.length * 4);
    this.f32.set(values, at / 4);
    return at;
  }

  /** Room for `count` f32, every one NaN until it is written. */
  output(count: number): number {
    return this.floats(new Float32Array(count).fill(Number.NaN));
  }

  read(at: number, count: number): Float32Array {
    return this.f32.slice(at / 4, at / 4 + count);
  }

  /** No byte beside an allocation has changed. */
  expectGuards(): void {
    const broken = this.#guards.filter(({ from, to }) => this.u8.subarray(from, to).some((byte) => byte !== GUARD_BYTE));
    expect(broken).toEqual([]);
  }
}

const found = KERNEL_BUILDS.map((build) => ({ build, module: kernelModule(build) }));
for (const { build, module } of found) {
  if (typeof module === "string") process.stderr.write(`micro tests: ${build} skipped, ${module}\n`);
}

/** One bed for each build that can run here. */
export const beds: readonly Bed[] = found.flatMap(({ build, module }) => (typeof module === "string" ? [] : [new Bed(build, module)]));

/** Runs `body` once per build, as `describe`. */
export function onEveryBuild(body: (bed: Bed) => void): void {
  describe.each(beds.map((bed) => [bed.build, bed] as const))("%s", (_, bed) => {
    beforeEach(() => bed.reset());
    afterEach(() => bed.expectGuards());
    body(bed);
  });
}

/** Numbers in [-1, 1) from a seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2147483648 - 1;
  };
}

export function randoms(count: number, seed: number): Float32Array {
  const next = random(seed);
  return Float32Array.from({ length: count }, next);
}

/** |found - right| <= tolerance * scale for each element, `scale` the sum of the magnitudes that went into it. */
export function expectWithin(found: ArrayLike<number>, right: ArrayLike<number>, scale: ArrayLike<number> | number, tolerance: number): void {
  expect(found.length).toBe(right.length);
  const wrong: string[] = [];
  for (let i = 0; i < right.length && wrong.length < 4; i++) {
    const bound = tolerance * (typeof scale === "number" ? scale : scale[i]!);
    if (!(Math.abs(found[i]! - right[i]!) <= bound)) wrong.push(`[${i}] ${found[i]} instead of ${right[i]} +- ${bound}`);
  }
  expect(wrong).toEqual([]);
}

/** Distance of an f32 from an exact value in units of its last place (2^-149 at the least). */
export function ulps(found: number, exact: number): number {
  if (Number.isNaN(exact)) return Number.isNaN(found) ? 0 : Number.POSITIVE_INFINITY;
  const nearest = Math.fround(exact);
  if (!Number.isFinite(nearest)) return found === nearest ? 0 : Number.POSITIVE_INFINITY;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(exact) || 2 ** -149)), -126);
  return Math.abs(found - exact) / 2 ** (exponent - 23);
}

/** Equal element for element (NaN equals NaN). Jest's own comparison of typed arrays takes milliseconds per thousand. */
export function expectSame(found: ArrayLike<number>, right: ArrayLike<number>): void {
  expect(found.length).toBe(right.length);
  let different = 0;
  while (different < right.length && Object.is(found[different]!, right[different]!)) different++;
  const show = (values: ArrayLike<number>): string => (different === right.length ? "all equal" : `[${different}] ${values[different]}`);
  expect(show(found)).toBe(show(right));
}
