#!/usr/bin/env node
/** Draws the picture that the example reads: `node examples/ocr/draw.mjs [file]`. The same script gives the same bytes. */
import fs from "node:fs";
import { fileURLToPath } from "node:url";
import { PNG } from "pngjs";
import { segmentsOf } from "./font.mjs";

const WIDTH = 640;
const HEIGHT = 384;

/** Where each line stands: left end of its base line, pixels per unit of the font, thickness of the strokes, slope in degrees (clockwise), colour. */
// biome-ignore format: table
export const LINES = [
  { text: "Hello from npurt", x: 48, y: 80, scale: 2.4, pen: 4.8, angle: 0, colour: [24, 24, 32] },
  { text: "An NPU runtime for Node", x: 48, y: 160, scale: 1.9, pen: 3.4, angle: 0, colour: [20, 60, 140] },
  { text: "8 devices, 2048 streams", x: 60, y: 262, scale: 1.9, pen: 3.6, angle: -4, colour: [150, 40, 30] },
  { text: "read without a GPU", x: 76, y: 340, scale: 2, pen: 3.8, angle: 0, colour: [245, 245, 240] },
];
/** The last line stands on a dark bar. */
const BAR = { top: 296, bottom: 360, colour: [40, 70, 66] };

function background() {
  const pixels = Buffer.alloc(WIDTH * HEIGHT * 4, 255);
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const paper = 244 - Math.round((y / HEIGHT) * 14);
      const colour = y >= BAR.top && y < BAR.bottom ? BAR.colour : [paper, paper, paper - 6];
      pixels.set(colour, 4 * (y * WIDTH + x));
    }
  }
  return pixels;
}

/** Distance from (x, y) to the segment. */
function distance(x, y, [x0, y0, x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const t = Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

/** A round pen along each segment; at its edge a pixel is covered in part. */
function write(pixels, { text, x, y, scale, pen, angle, colour }) {
  const [cos, sin] = [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];
  const place = (px, py) => [x + scale * (px * cos + py * sin), y - scale * (py * cos - px * sin)];
  const coverage = new Map();
  for (const [x0, y0, x1, y1] of segmentsOf(text).segments) {
    const segment = [...place(x0, y0), ...place(x1, y1)];
    const [left, right] = [Math.min(segment[0], segment[2]) - pen, Math.max(segment[0], segment[2]) + pen];
    const [top, bottom] = [Math.min(segment[1], segment[3]) - pen, Math.max(segment[1], segment[3]) + pen];
    for (let row = Math.floor(top); row <= bottom; row++) {
      for (let column = Math.floor(left); column <= right; column++) {
        const covered = Math.max(0, Math.min(1, pen / 2 + 0.5 - distance(column + 0.5, row + 0.5, segment)));
        const at = row * WIDTH + column;
        if (covered > (coverage.get(at) ?? 0)) coverage.set(at, covered);
      }
    }
  }
  for (const [at, covered] of coverage) {
    for (let c = 0; c < 3; c++) pixels[4 * at + c] = Math.round(pixels[4 * at + c] * (1 - covered) + colour[c] * covered);
  }
}

export function drawSample() {
  const png = new PNG({ width: WIDTH, height: HEIGHT });
  png.data = background();
  for (const entry of LINES) write(png.data, entry);
  return PNG.sync.write(png, { colorType: 2, deflateLevel: 9 });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  fs.writeFileSync(process.argv[2] ?? fileURLToPath(new URL("sample.png", import.meta.url)), drawSample());
}
