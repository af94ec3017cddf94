/**
 * What work costs on each kernel build, in nanoseconds of one core of a server's processor (Xeon, 2.1 GHz): from what tiles took in whole models, which
 * `node bench/kernel/costs.mjs` prints beside these estimates. Tiles, and what is worth waking a core for, come from here, and never a bit of a result.
 */
export interface Build {
  /** Columns of the panels that weights are packed in. */
  readonly panel: number;
  /** Multiply-adds per nanosecond, of products over panels in cache. */
  readonly macsPerNs: number;
  /** To close and store one result. */
  readonly resultNs: number;
}

export const BUILDS = {
  base: { panel: 8, macsPerNs: 11, resultNs: 0.5 },
  relaxed: { panel: 8, macsPerNs: 18, resultNs: 0.5 },
  wide: { panel: 16, macsPerNs: 36, resultNs: 0.25 },
} as const satisfies Readonly<Record<string, Build>>;
export type BuildName = keyof typeof BUILDS;
/** For programs whose build is not said: its panels are those of `base` too. */
export const USUAL_BUILD: BuildName = "relaxed";

/** Bytes per nanosecond: moved in cache, and read of weights, which lie farther away. */
export const BYTES_PER_NS = 15;
export const WEIGHT_BYTES_PER_NS = 22;
/** What any tile costs before its first element: its claim, operands that are not in its core's cache. */
export const TILE_OVERHEAD_NS = 400;
