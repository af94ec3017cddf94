/** A small seeded generator (xorshift32): the same seed gives the same schedule everywhere. */
export class Random {
  #state: number;

  constructor(seed: number) {
    // A zero state would stay zero.
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0 || 1;
  }

  /** A whole number from 0 to `limit` - 1. */
  below(limit: number): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return this.#state % limit;
  }

  /** True with probability `p`. */
  chance(p: number): boolean {
    return p > 0 && this.below(1 << 20) < p * (1 << 20);
  }
}
