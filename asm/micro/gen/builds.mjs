/**
 * The three builds of the micro module: one source, these numbers. A wider build needs a newer engine; lib/host/kernels.ts chooses.
 * `vectors`: 128-bit vectors per row of a tile. `rows`: rows of a tile; every height from 1 to `rows` exists, so the tuner may choose any of them.
 * `span`: vectors that long loops work on at once; 2 of them are what V8's revectoriser turns into one 256-bit register.
 * `single` and `pair`: panels that a tile of one or two rows takes side by side, to have enough independent sums for the latency of an addition.
 */
export const BUILDS = {
  // Multiply and add need one register more than a fused step: a sixth row would spill.
  base: { name: "base", fused: false, dot: false, vectors: 2, rows: 5, preferred: 5, span: 1, single: 4, pair: 2, integerRows: 4 },
  relaxed: { name: "relaxed", fused: true, dot: true, vectors: 2, rows: 6, preferred: 6, span: 1, single: 4, pair: 2, integerRows: 4 },
  wide: { name: "wide", fused: true, dot: true, vectors: 4, rows: 6, preferred: 6, span: 2, single: 3, pair: 2, integerRows: 4 },
};

/** Where things lie in the scratch of an instance (bytes). Offsets, not addresses: `bind` gives the base. */
export const SCRATCH = {
  CONSTANTS: 0, // the table that `Constants` fills
  EDGE: 1024, // one tile: at most 6 rows of 16 columns
  GROUP: 1536, // three groups of 16 elements: the short end of a row on its way in and out
  SUMS: 1792, // sums of one group of vectors
  POINTERS: 2048, // row pointers of a block of rows
  PATCH: 4096, // Winograd: a tile of 6 x 6 pixels, its half-done transform, and what comes out of it; each 36 x 32 bytes
  INTEGER: 8192, // rows of bytes widened to 16 bits
  BYTES: 8192 + 65536,
};
