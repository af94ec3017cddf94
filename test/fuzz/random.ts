/** Seeded random shapes, numbers and choices. */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { roundTo, sizeOf, type Tensor, tensor } from "../../dist/lib/graph/tensor";

/** A tensor of a case; `fixed` makes it an initializer. */
export interface Given extends Tensor {
  readonly fixed?: boolean;
}

/** One node and what it is fed. */
export interface Case {
  readonly op: string;
  readonly domain?: string;
  readonly opset: number;
  readonly inputs: readonly (Given | undefined)[];
  readonly attributes?: Readonly<Record<string, bigint | number | string | readonly bigint[] | readonly number[] | undefined>>;
  readonly outputs?: number;
}

const UNSIGNED: ReadonlySet<DtypeName> = new Set(["uint8", "uint16", "uint32", "uint64", "bool"]);
export const isFloatName = (dtype: DtypeName): boolean => dtype.startsWith("float");
const AWKWARD = [0, -0, 1, -1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e30, -1e30, 1e-40, 0.5, -0.5, 1.5, 2.5, 65504];

/** xorshift32: the same seed gives the same cases everywhere. */
export class Random {
  #x: number;
  constructor(seed: number) {
    this.#x = (Math.imul(seed + 1, 2654435761) ^ 0x5bd1e995) | 0 || 1;
    for (let i = 0; i < 8; i++) this.below(2);
  }

  below(limit: number): number {
    this.#x ^= this.#x << 13;
    this.#x ^= this.#x >>> 17;
    this.#x ^= this.#x << 5;
    return (this.#x >>> 0) % limit;
  }
  /** Both ends are possible. */
  int(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }
  chance(of: number): boolean {
    return this.below(1000) < of * 1000;
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
  /** In -1..1. */
  unit(): number {
    return Math.fround((this.below(2 ** 24) / 2 ** 23) * 1 - 1);
  }
  order(count: number): number[] {
    const list = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [list[i], list[j]] = [list[j]!, list[i]!];
    }
    return list;
  }

  /** Mostly small dims, now and then one that is 0, 1 or longer than a vector. */
  dims(rank = this.below(5), zero = 0.04): number[] {
    const dims = Array.from({ length: rank }, () => (this.chance(zero) ? 0 : this.chance(0.12) ? this.int(8, 37) : this.int(1, 5)));
    while (sizeOf(dims) > 20_000) dims[dims.indexOf(Math.max(...dims))] = 2;
    return dims;
  }
  /** Dims that broadcast with `dims`. */
  broadcastable(dims: readonly number[]): number[] {
    return dims.slice(this.chance(0.4) ? this.below(dims.length + 1) : 0).map((dim) => (this.chance(0.25) ? 1 : dim));
  }
  axis(rank: number): number {
    return this.int(-rank, rank - 1);
  }

  number(dtype: DtypeName, scale: number): number {
    if (dtype === "bool") return this.below(2);
    if (isFloatName(dtype)) return roundTo(dtype, this.unit() * scale);
    const size = Math.max(1, Math.round(scale));
    return UNSIGNED.has(dtype) ? this.int(0, size) : this.int(-size, size);
  }
  tensor(dtype: DtypeName, dims: readonly number[], { scale = 2, fixed = false, awkward = false, low = Number.NEGATIVE_INFINITY } = {}): Given {
    const one = (): number => {
      const value = awkward && this.chance(0.15) && isFloatName(dtype) ? roundTo(dtype, this.pick(AWKWARD)) : this.number(dtype, scale);
      return value < low ? Math.abs(value) + Math.max(low, 0) : value;
    };
    return { ...tensor(dtype, dims, Array.from({ length: sizeOf(dims) }, one)), fixed };
  }
  /** Integers of [low, high]. */
  indices(dims: readonly number[], low: number, high: number, { dtype = "int64" as DtypeName, fixed = false } = {}): Given {
    return {
      ...tensor(
        dtype,
        dims,
        Array.from({ length: sizeOf(dims) }, () => this.int(low, high)),
      ),
      fixed,
    };
  }
}

/** A 1-D int64 initializer. */
export const list = (...numbers: number[]): Given => ({ ...tensor("int64", [numbers.length], numbers), fixed: true });
export const one = (dtype: DtypeName, value: number, fixed = true): Given => ({ ...tensor(dtype, [], [value]), fixed });
export const ints = (numbers: readonly number[]): bigint[] => numbers.map(BigInt);
