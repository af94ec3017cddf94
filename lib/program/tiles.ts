/** How much work one tile is. Depends on shapes and the instruction only, so that results never depend on the number of cores. */

/** A claim costs up to 40 ns and tiles of a killed core are lost as a whole: a tile is worth several microseconds and ends within a millisecond. */
const TILE_NS = 8000;
export const LONGEST_TILE_NS = 400000;
/** More tiles than this only add claims. */
const TILES_WANTED = 64;

/** Bytes that one core moves per nanosecond, about: from the measured copies. */
export const BYTES_PER_NS = 15;
/** Multiply-adds per nanosecond of the f32 micro-kernels, by the width of their panels: 128-bit or 256-bit vectors. */
export const macsPerNs = (panel: number): number => (panel > 8 ? 50 : 26);
/** What any tile costs before its first element. */
export const TILE_OVERHEAD_NS = 150;

/** Of `units` that cost `unitNs` each, how many make one tile; a multiple of `multiple` unless one tile takes all. */
export function unitsPerTile(units: number, unitNs: number, multiple = 1): number {
  const total = units * unitNs;
  const goal = Math.min(LONGEST_TILE_NS, Math.max(TILE_NS, total / TILES_WANTED));
  const wanted = Math.max(1, Math.round(goal / Math.max(unitNs, 1e-6)));
  const rounded = Math.max(multiple, Math.round(wanted / multiple) * multiple);
  return rounded >= units ? Math.max(units, 1) : rounded;
}

/** Work below this is not worth a second core. */
export const SPLIT_NS = 30000;
/** Fewer tiles than this are an even number of them: with 3, one of two cores has twice the work of the other. */
export const FEW_TILES = 12;

/**
 * Of `units`, how many make one tile if all are of about equal size, in place of `perTile` and a short last one: up to a third more. `totalNs` is what all
 * units cost: tiles are then as many as two cores can share evenly, if it is worth it.
 */
export function evenUnits(units: number, perTile: number, totalNs = 0): number {
  const parts = Math.max(1, Math.ceil(units / perTile - 1 / 3));
  const shared = totalNs > SPLIT_NS && parts < FEW_TILES ? parts + (parts & 1) : parts;
  return Math.max(1, ceilDiv(units, shared));
}

export const ceilDiv = (a: number, b: number): number => Math.floor((a + b - 1) / b);
