/** What a line of text says: input and output of a recognition network that was trained with CTC ("connectionist temporal classification"). */
import fs from "node:fs";
import { sample } from "./image.mjs";

const HEIGHT = 48;
/** Widths are rounded up to a multiple of this, so that lines of about the same length share a compiled program. */
const MULTIPLE = 160;
/** A longer line is squeezed: the network compares every position with every other, in memory that grows with the square of the width. */
const MOST = 20 * MULTIPLE;

/** {dims, data}: the rectangle of the picture, straightened, as high as the network wants it; the rest of the width stays 0. */
export function recognitionInput(image, box) {
  const width = Math.min(MOST, Math.max(1, Math.round((HEIGHT * box.width) / box.height)));
  const padded = Math.ceil(width / MULTIPLE) * MULTIPLE;
  const data = new Float32Array(3 * HEIGHT * padded);
  sample(image, box, width, HEIGHT, (value) => value / 127.5 - 1, data, padded);
  return { dims: [1, 3, HEIGHT, padded], data };
}

/** What each class of the network stands for: nothing, the characters of the dictionary, a space. */
export function readAlphabet(file) {
  return ["", ...fs.readFileSync(file, "utf8").split(/\r?\n/).filter(Boolean), " "];
}

/**
 * The best class at each step; repeats of a class are one character, and class 0 ("nothing") separates two equal ones.
 * The confidence is the mean probability of the characters.
 */
export function decode(probabilities, [, steps, classes], alphabet) {
  let text = "";
  let sum = 0;
  let count = 0;
  let last = 0;
  for (let step = 0; step < steps; step++) {
    let best = 0;
    for (let i = 1; i < classes; i++) {
      if (probabilities[step * classes + i] > probabilities[step * classes + best]) best = i;
    }
    if (best !== 0 && best !== last) {
      text += alphabet[best];
      sum += probabilities[step * classes + best];
      count++;
    }
    last = best;
  }
  return { text: text.trim(), confidence: count === 0 ? 0 : sum / count };
}
