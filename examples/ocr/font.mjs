/**
 * A font of strokes, drawn for this example: every character is a few lines and arcs, so it can be drawn at any size and angle.
 * Units: capitals are 14 high, small letters 10, descenders go down to -4; y points up.
 * A stroke is a list of points and arcs {cx, cy, rx, ry, from, to} (degrees, counter-clockwise positive); consecutive pieces are joined.
 */
const arc = (cx, cy, rx, ry, from, to) => ({ cx, cy, rx, ry, from, to });
const line = (...numbers) => Array.from({ length: numbers.length / 2 }, (_, i) => [numbers[2 * i], numbers[2 * i + 1]]);
const dot = (x, y) => [line(x, y, x + 0.01, y)];
const bowl = arc(4.5, 5, 4.5, 5, 0, 360);
const arch = [arc(4, 6, 4, 4, 180, 0), [8, 0]];
// biome-ignore format: one stroke
const head = [[0, 14], [5, 14], arc(5, 10.3, 4, 3.7, 90, -90), [0, 6.6]];

// biome-ignore format: table
const GLYPHS = {
  A: [11, line(0, 0, 5.5, 14, 11, 0), line(2, 5, 9, 5)],
  D: [10, [[0, 0], [0, 14], [3, 14], arc(3, 7, 7, 7, 90, -90), [0, 0]]],
  E: [8, line(8, 14, 0, 14, 0, 0, 8, 0), line(0, 7.2, 7, 7.2)],
  G: [13, [arc(6.5, 7, 6.5, 7, 45, 358), [7.5, 6.8]]],
  H: [10, line(0, 0, 0, 14), line(10, 0, 10, 14), line(0, 7, 10, 7)],
  N: [10, line(0, 0, 0, 14, 10, 0, 10, 14)],
  P: [9, line(0, 0, 0, 14), head],
  R: [9.5, line(0, 0, 0, 14), head, line(5, 6.6, 9.5, 0)],
  T: [10, line(0, 14, 10, 14), line(5, 14, 5, 0)],
  U: [10, [[0, 14], [0, 4.6], arc(5, 4.6, 5, 4.6, 180, 360), [10, 14]]],
  a: [8, [[8, 0], [8, 6.6], arc(4.2, 6.6, 3.8, 3.4, 0, 150)], [[8, 5.6], [3.6, 5.6], arc(3.6, 2.8, 3.6, 2.8, 90, 270), [6, 0.5], [8, 2.6]]],
  b: [9, line(0, 14, 0, 0), [bowl]],
  c: [8, [arc(4.5, 5, 4.5, 5, 45, 315)]],
  d: [9, line(9, 14, 9, 0), [bowl]],
  e: [9, [[0.2, 5.2], [9, 5.2], arc(4.5, 5, 4.5, 5, 2, 318)]],
  f: [5.5, [[2, 0], [2, 11], arc(5, 11, 3, 3, 180, 80)], line(0, 9.8, 5.2, 9.8)],
  g: [9, [bowl], [[9, 10], [9, -0.8], arc(4.7, -0.8, 4.3, 3.2, 0, -150)]],
  h: [8, line(0, 0, 0, 14), arch],
  i: [0, line(0, 0, 0, 10), ...dot(0, 13.4)],
  k: [7.6, line(0, 0, 0, 14), line(7, 10, 0, 3.8), line(2.6, 6.1, 7.6, 0)],
  l: [0, line(0, 14, 0, 0)],
  m: [12.8, line(0, 0, 0, 10), [arc(3.2, 6.6, 3.2, 3.4, 180, 0), [6.4, 0]], [arc(9.6, 6.6, 3.2, 3.4, 180, 0), [12.8, 0]]],
  n: [8, line(0, 0, 0, 10), arch],
  o: [9, [bowl]],
  p: [9, line(0, 10, 0, -4), [bowl]],
  r: [5, line(0, 0, 0, 10), [arc(4, 6, 4, 4, 180, 70)]],
  s: [8, [arc(4, 7.5, 3.6, 2.5, 25, 270), arc(4, 2.5, 4, 2.5, 90, -155)]],
  t: [6, [[2.4, 13.4], [2.4, 2.8], arc(5.2, 2.8, 2.8, 2.8, 180, 285)], line(0, 10, 5.8, 10)],
  u: [8, [[0, 10], [0, 4], arc(4, 4, 4, 4, 180, 360)], line(8, 10, 8, 0)],
  v: [8.4, line(0, 10, 4.2, 0, 8.4, 10)],
  w: [12, line(0, 10, 3, 0, 6, 9, 9, 0, 12, 10)],
  x: [8, line(0, 0, 8, 10), line(0, 10, 8, 0)],
  y: [8.6, line(0, 10, 4.3, 0), line(8.6, 10, 4.3, 0, 2.8, -3.2, 0.6, -4)],
  z: [8, line(0, 10, 8, 10, 0, 0, 8, 0)],
  0: [9.4, [arc(4.7, 7, 4.7, 7, 0, 360)]],
  1: [5, line(0.6, 11, 4.4, 14, 4.4, 0)],
  2: [9.2, [arc(4.6, 9.8, 4.4, 4.2, 165, -38), [0.2, 0], [9.2, 0]]],
  3: [9, [arc(4.4, 10.6, 4, 3.4, 150, -90), arc(4.4, 3.6, 4.6, 3.6, 90, -150)]],
  4: [9.5, line(7, 0, 7, 14, 0, 4.4, 9.5, 4.4)],
  5: [9, [[8.4, 14], [1.6, 14], [0.9, 7.4], arc(4.5, 4.6, 4.5, 4.6, 140, -150)]],
  6: [9.4, [arc(4.7, 4.5, 4.7, 4.5, 0, 360)], [arc(9.4, 5, 9.4, 9, 180, 105)]],
  7: [9, line(0, 14, 9, 14, 3.4, 0)],
  8: [9, [arc(4.5, 10.7, 3.8, 3.3, 0, 360)], [arc(4.5, 3.7, 4.5, 3.7, 0, 360)]],
  9: [9.4, [arc(4.7, 9.5, 4.7, 4.5, 0, 360)], [arc(0, 9, 9.4, 9, 0, -75)]],
  ",": [1, line(1, 0.6, 0, -2.6)],
  ".": [0, ...dot(0, 0.3)],
  " ": [4],
};
const GAP = 3.4;
/** Degrees between the points that stand for an arc. */
const STEP = 10;

function* pointsOf(stroke) {
  for (const piece of stroke) {
    if (Array.isArray(piece)) {
      yield piece;
      continue;
    }
    const { cx, cy, rx, ry, from, to } = piece;
    const steps = Math.ceil(Math.abs(to - from) / STEP);
    for (let i = 0; i <= steps; i++) {
      const angle = ((from + ((to - from) * i) / steps) * Math.PI) / 180;
      yield [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)];
    }
  }
}

/** The line segments [x0, y0, x1, y1] of a text that starts at 0, 0, and its width. */
export function segmentsOf(text) {
  const segments = [];
  let x = 0;
  for (const character of text) {
    const glyph = GLYPHS[character];
    if (glyph === undefined) throw new Error(`the font has no "${character}"`);
    const [width, ...strokes] = glyph;
    for (const stroke of strokes) {
      let last;
      for (const [px, py] of pointsOf(stroke)) {
        if (last !== undefined) segments.push([x + last[0], last[1], x + px, py]);
        last = [px, py];
      }
    }
    x += width + GAP;
  }
  return { segments, width: x - GAP };
}
