/** How much work one tile is. Depends on shapes and the instruction only, so that results never depend on the number of cores. */

/** A claim costs up to 40 ns and tiles of a killed core are lost as a whole: a tile is worth several microseconds and ends within a millisecond. */
const TILE_NS = 8000;
export const LONGEST_TILE_NS = 400000;
/** More tiles than this only add claims. */
const TILES_WANTED = 64;

/** Work below this is one tile: what two cores would save goes into their meeting and into each other's caches. */
export const SPLIT_NS = 12000;
/** Fewer tiles than this are an even number of them: with 3, one of two cores has twice the work of the other. */
export const FEW_TILES = 12;

const evenly = (parts: number, totalNs: number): number => (totalNs > SPLIT_NS && parts < FEW_TILES ? parts + (parts & 1) : parts);

/** Of `units` that cost `unitNs` each, how many make one tile; a multiple of `multiple` unless one tile takes all. */
export function unitsPerTile(units: number, unitNs: number, multiple = 1): number {
  const totalNs = units * unitNs;
  const goal = Math.min(LONGEST_TILE_NS, Math.max(TILE_NS, totalNs / TILES_WANTED));
  const wanted = units / evenly(Math.max(1, Math.round(totalNs / goal)), totalNs);
  const rounded = Math.max(1, Math.ceil(wanted / multiple)) * multiple;
  return rounded >= units ? Math.max(units, 1) : rounded;
}

/**
 * Of `units`, how many make one tile if all are of about equal size, in place of `perTile` and a short last one: up to a third more. `totalNs` is what all
 * units cost: tiles are then as many as two cores can share evenly, if it is worth it.
 */
export function evenUnits(units: number, perTile: number, totalNs = 0): number {
  const parts = Math.max(1, Math.ceil(units / perTile - 1 / 3));
  return Math.max(1, ceilDiv(units, evenly(parts, totalNs)));
}

/**
 * Columns of a row that a strip program wants at once where a product is cut by columns: each run of it costs 100 ns and more beside its elements. No more
 * than a tile of `rows` may take.
 */
export const stripColumns = (rows: number, cellNs: number): number => Math.max(64, Math.min(256, Math.floor(LONGEST_TILE_NS / (rows * cellNs))));

export const ceilDiv = (a: number, b: number): number => Math.floor((a + b - 1) / b);
