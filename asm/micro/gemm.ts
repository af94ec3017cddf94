/**
 * The f32 micro-kernels: up to 5 rows of A, read in place, times one panel of 8 columns of B, [k][8]. Every element of C adds its products in the
 * order of k, whatever kernel computes it. One flat loop, one way out: V8 spills accumulators as soon as there are two (measured: half the speed).
 */

/** `rows` and `accumulate` are constants at every call: what they rule out is not compiled. */
@inline
function micro(
  rows: i32, accumulate: bool, k: u32, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, b: usize, c: usize, pitch: usize,
): void {
  const zero = f32x4.splat(0);
  let p = c;
  let c00 = accumulate ? v128.load(p) : zero, c01 = accumulate ? v128.load(p, 16) : zero;
  if (rows > 1) p += pitch;
  let c10 = accumulate && rows > 1 ? v128.load(p) : zero, c11 = accumulate && rows > 1 ? v128.load(p, 16) : zero;
  if (rows > 2) p += pitch;
  let c20 = accumulate && rows > 2 ? v128.load(p) : zero, c21 = accumulate && rows > 2 ? v128.load(p, 16) : zero;
  if (rows > 3) p += pitch;
  let c30 = accumulate && rows > 3 ? v128.load(p) : zero, c31 = accumulate && rows > 3 ? v128.load(p, 16) : zero;
  if (rows > 4) p += pitch;
  let c40 = accumulate && rows > 4 ? v128.load(p) : zero, c41 = accumulate && rows > 4 ? v128.load(p, 16) : zero;
  const end = b + (<usize>k << 5);
  while (b < end) {
    const b0 = v128.load(b), b1 = v128.load(b, 16);
    let x = v128.load32_splat(a0);
    c00 = f32x4.add(c00, f32x4.mul(x, b0));
    c01 = f32x4.add(c01, f32x4.mul(x, b1));
    a0 += 4;
    if (rows > 1) {
      x = v128.load32_splat(a1);
      c10 = f32x4.add(c10, f32x4.mul(x, b0));
      c11 = f32x4.add(c11, f32x4.mul(x, b1));
      a1 += 4;
    }
    if (rows > 2) {
      x = v128.load32_splat(a2);
      c20 = f32x4.add(c20, f32x4.mul(x, b0));
      c21 = f32x4.add(c21, f32x4.mul(x, b1));
      a2 += 4;
    }
    if (rows > 3) {
      x = v128.load32_splat(a3);
      c30 = f32x4.add(c30, f32x4.mul(x, b0));
      c31 = f32x4.add(c31, f32x4.mul(x, b1));
      a3 += 4;
    }
    if (rows > 4) {
      x = v128.load32_splat(a4);
      c40 = f32x4.add(c40, f32x4.mul(x, b0));
      c41 = f32x4.add(c41, f32x4.mul(x, b1));
      a4 += 4;
    }
    b += 32;
  }
  v128.store(c, c00);
  v128.store(c, c01, 16);
  if (rows > 1) {
    c += pitch;
    v128.store(c, c10);
    v128.store(c, c11, 16);
  }
  if (rows > 2) {
    c += pitch;
    v128.store(c, c20);
    v128.store(c, c21, 16);
  }
  if (rows > 3) {
    c += pitch;
    v128.store(c, c30);
    v128.store(c, c31, 16);
  }
  if (rows > 4) {
    c += pitch;
    v128.store(c, c40);
    v128.store(c, c41, 16);
  }
}

/** The two that matter are called from two places each: a function with one caller is inlined, and then V8 allocates registers for all loops at once. */
export function set5(k: u32, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, b: usize, c: usize, pitch: usize): void {
  micro(5, false, k, a0, a1, a2, a3, a4, b, c, pitch);
}
export function add5(k: u32, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, b: usize, c: usize, pitch: usize): void {
  micro(5, true, k, a0, a1, a2, a3, a4, b, c, pitch);
}
function set4(k: u32, a0: usize, a1: usize, a2: usize, a3: usize, b: usize, c: usize, pitch: usize): void {
  micro(4, false, k, a0, a1, a2, a3, 0, b, c, pitch);
}
function add4(k: u32, a0: usize, a1: usize, a2: usize, a3: usize, b: usize, c: usize, pitch: usize): void {
  micro(4, true, k, a0, a1, a2, a3, 0, b, c, pitch);
}
function set3(k: u32, a0: usize, a1: usize, a2: usize, b: usize, c: usize, pitch: usize): void {
  micro(3, false, k, a0, a1, a2, 0, 0, b, c, pitch);
}
function add3(k: u32, a0: usize, a1: usize, a2: usize, b: usize, c: usize, pitch: usize): void {
  micro(3, true, k, a0, a1, a2, 0, 0, b, c, pitch);
}
function set2(k: u32, a0: usize, a1: usize, b: usize, c: usize, pitch: usize): void {
  micro(2, false, k, a0, a1, 0, 0, 0, b, c, pitch);
}
function add2(k: u32, a0: usize, a1: usize, b: usize, c: usize, pitch: usize): void {
  micro(2, true, k, a0, a1, 0, 0, 0, b, c, pitch);
}
function set1(k: u32, a0: usize, b: usize, c: usize): void {
  micro(1, false, k, a0, 0, 0, 0, 0, b, c, 0);
}
function add1(k: u32, a0: usize, b: usize, c: usize): void {
  micro(1, true, k, a0, 0, 0, 0, 0, b, c, 0);
}

/** C[rows][8] at `c` (`pitch` bytes between rows) = or += A x panel. `a0`.. are the rows of A; those past `rows` are not read. */
export function multiply(
  rows: u32, accumulate: bool, k: u32, a0: usize, a1: usize, a2: usize, a3: usize, a4: usize, panel: usize, c: usize, pitch: usize,
): void {
  if (rows == 5) accumulate ? add5(k, a0, a1, a2, a3, a4, panel, c, pitch) : set5(k, a0, a1, a2, a3, a4, panel, c, pitch);
  else if (rows == 1) accumulate ? add1(k, a0, panel, c) : set1(k, a0, panel, c);
  else if (rows == 2) accumulate ? add2(k, a0, a1, panel, c, pitch) : set2(k, a0, a1, panel, c, pitch);
  else if (rows == 3) accumulate ? add3(k, a0, a1, a2, panel, c, pitch) : set3(k, a0, a1, a2, panel, c, pitch);
  else accumulate ? add4(k, a0, a1, a2, a3, panel, c, pitch) : set4(k, a0, a1, a2, a3, panel, c, pitch);
}

@inline
function rowOf(accumulate: bool, k: u32, a: usize, b: usize, panelBytes: usize, c: usize): void {
  const zero = f32x4.splat(0);
  let c0 = accumulate ? v128.load(c) : zero, c1 = accumulate ? v128.load(c, 16) : zero;
  let c2 = accumulate ? v128.load(c, 32) : zero, c3 = accumulate ? v128.load(c, 48) : zero;
  let c4 = accumulate ? v128.load(c, 64) : zero, c5 = accumulate ? v128.load(c, 80) : zero;
  let c6 = accumulate ? v128.load(c, 96) : zero, c7 = accumulate ? v128.load(c, 112) : zero;
  let q = b + panelBytes, r = q + panelBytes, s = r + panelBytes;
  const end = b + (<usize>k << 5);
  while (b < end) {
    const x = v128.load32_splat(a);
    c0 = f32x4.add(c0, f32x4.mul(x, v128.load(b)));
    c1 = f32x4.add(c1, f32x4.mul(x, v128.load(b, 16)));
    c2 = f32x4.add(c2, f32x4.mul(x, v128.load(q)));
    c3 = f32x4.add(c3, f32x4.mul(x, v128.load(q, 16)));
    c4 = f32x4.add(c4, f32x4.mul(x, v128.load(r)));
    c5 = f32x4.add(c5, f32x4.mul(x, v128.load(r, 16)));
    c6 = f32x4.add(c6, f32x4.mul(x, v128.load(s)));
    c7 = f32x4.add(c7, f32x4.mul(x, v128.load(s, 16)));
    a += 4;
    b += 32;
    q += 32;
    r += 32;
    s += 32;
  }
  v128.store(c, c0);
  v128.store(c, c1, 16);
  v128.store(c, c2, 32);
  v128.store(c, c3, 48);
  v128.store(c, c4, 64);
  v128.store(c, c5, 80);
  v128.store(c, c6, 96);
  v128.store(c, c7, 112);
}

/** One row of A times four panels: eight sums in flight hide the latency that one panel cannot. */
export function setRow(k: u32, a: usize, b: usize, panelBytes: usize, c: usize): void {
  rowOf(false, k, a, b, panelBytes, c);
}
export function addRow(k: u32, a: usize, b: usize, panelBytes: usize, c: usize): void {
  rowOf(true, k, a, b, panelBytes, c);
}

/** The first `width` columns of an 8-column tile of `rows` rows: `tile` (32 bytes per row) -> C, or back. */
export function moveTile(tile: usize, c: usize, pitch: usize, rows: u32, width: u32, out: bool): void {
  for (let r: u32 = 0; r < rows; r++) {
    for (let j: usize = 0; j < <usize>width << 2; j += 4) {
      if (out) store<f32>(c + j, load<f32>(tile + j));
      else store<f32>(tile + j, load<f32>(c + j));
    }
    tile += 32;
    c += pitch;
  }
}
