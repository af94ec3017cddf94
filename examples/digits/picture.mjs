/** Digits drawn in characters: half blocks where the terminal speaks UTF-8, a ramp of ASCII characters elsewhere. */
import { PIXELS, SIDE } from "./dataset.mjs";

/** The margin of a digit is empty; what is left fits three times into 80 columns. */
const LEFT = 3;
const WIDTH = 22;
const RAMP = " .:-=+*#%@";

const unicode = /utf-?8/i.test(process.env.LC_ALL || process.env.LC_CTYPE || process.env.LANG || "");

/** Colours are for terminals only, and for nobody who set NO_COLOR. */
export const colour = process.stdout.isTTY && !process.env.NO_COLOR && process.env.TERM !== "dumb";
const paint = (code) => (text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
export const bold = paint(1);
export const dim = paint(2);
export const green = paint(32);
export const red = paint(31);

/** Two rows of pixels become one line, since a character is about twice as high as wide. */
function line(pixels, row) {
  let text = "";
  for (let x = LEFT; x < LEFT + WIDTH; x++) {
    const upper = pixels[row * SIDE + x];
    const lower = pixels[(row + 1) * SIDE + x];
    if (unicode) text += [" ", "▄", "▀", "█"][(upper > 0.4 ? 2 : 0) + (lower > 0.4 ? 1 : 0)];
    else text += RAMP[Math.round(((upper + lower) / 2) * (RAMP.length - 1))];
  }
  return text;
}

/** Digits side by side, each with a caption; `captions` are {text, paint}. */
export function draw(digits, captions) {
  const lines = [];
  for (let row = 2; row < SIDE - 2; row += 2) lines.push(digits.map((pixels) => line(pixels, row)).join("    "));
  lines.push(captions.map(({ text, paint: ink }) => ink(text.padEnd(WIDTH))).join("    "));
  return lines.map((text) => `  ${text}`.trimEnd()).join("\n");
}

/** A bar of `share` of 30 characters. */
export const bar = (share) => (unicode ? "█" : "#").repeat(Math.max(1, Math.round(30 * share)));

export const pixelsOf = (digits, index) => digits.pixels.subarray(index * PIXELS, (index + 1) * PIXELS);
