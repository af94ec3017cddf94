/**
 * The three builds of the micro module: one source, these numbers. A wider build needs a newer engine; lib/host/kernels.ts chooses.
 * `vectors`: 128-bit vectors per row of a tile. `rows`: rows of the tallest tile; every height from 1 to `rows` exists, for the rows that are left.
 * `strip`, `winograd`, `depthwise`: vectors that those loops work on at once; V8's revectoriser turns 2 of them into one 256-bit register.
 * `sums`: vectors of running sums of a row, enough of them to hide the latency of an addition.
 * `unroll`: steps of k that a tall tile takes per turn of its loop; V8 11.3 spills with more than one.
 * `single` and `pair`: panels that a tile of one or two rows takes side by side, to have enough independent sums for the latency of an addition.
 */
export const BUILDS = {
  // Multiply and add need one register more than a fused step: a sixth row would spill.
  base: {
    name: "base",
    fused: false,
    dot: false,
    strassen: true,
    vectors: 2,
    rows: 5,
    unroll: 1,
    strip: 2,
    winograd: 2,
    depthwise: 1,
    sums: 4,
    single: 4,
    pair: 2,
    integerRows: 6,
  },
  relaxed: {
    name: "relaxed",
    fused: true,
    dot: true,
    strassen: true,
    vectors: 2,
    rows: 6,
    unroll: 1,
    strip: 4,
    winograd: 2,
    depthwise: 1,
    sums: 4,
    single: 4,
    pair: 2,
    integerRows: 6,
  },
  wide: {
    name: "wide",
    fused: true,
    dot: true,
    strassen: false,
    vectors: 4,
    rows: 6,
    unroll: 4,
    strip: 4,
    winograd: 4,
    depthwise: 2,
    sums: 8,
    single: 3,
    pair: 2,
    integerRows: 4,
  },
};

/** Where things lie in the scratch of an instance (bytes). Offsets, not addresses: `bind` gives the base. */
export const SCRATCH = {
  CONSTANTS: 0, // the table that `Constants` fills
  EDGE: 1024, // one tile: at most 6 rows of 16 columns
  GROUP: 1536, // three groups of at most 32 elements: the short end of a row on its way in and out
  SUMS: 1920, // two sets of running sums, at most 8 vectors each
  MOMENTS: 2176, // mean and inverse deviation of at most MOMENT_ROWS rows
  POINTERS: 2304, // row pointers of a block of rows
  ZEROS: 2816, // the bias of those without one: as many columns as a tile has
  LIMITS: 3008, // the least and the greatest f32 that the call at hand stores, and the NaN
  BIAS: 3072, // bias of the last columns, fewer than a panel; behind it the marks of NaN
  PATCH: 4096, // Winograd: a tile of 6 x 6 pixels, its half-done transform, and what comes out of it
  INTEGER: 11264, // what integer products widen to 16 bits: rows, panels, products (integer.mjs)
  BYTES: 11264 + 315392,
};
/** Rows that layer normalization works on at a time. */
export const MOMENT_ROWS = 8;
/** Bytes of each of the three parts of PATCH: 36 pixels of at most 16 channels. */
export const PATCH_BYTES = 36 * 64;
