/** Pictures as planes of floats: reading, and sampling along any rectangle. */
import fs from "node:fs";
import { PNG } from "pngjs";

function decoded(file) {
  const bytes = fs.readFileSync(file);
  try {
    return PNG.sync.read(bytes);
  } catch (error) {
    throw new Error(`${file} is no PNG picture: ${error.message}`);
  }
}

/** {width, height, pixels}: RGBA bytes, transparent parts on white. */
export function readImage(file) {
  const { width, height, data } = decoded(file);
  for (let i = 0; i < data.length; i += 4) {
    const alpha = data[i + 3];
    for (let c = 0; c < 3; c++) data[i + c] = Math.round((data[i + c] * alpha + 255 * (255 - alpha)) / 255);
  }
  return { width, height, pixels: data };
}

/**
 * The part of the picture under a rectangle, as `height` x `width` pixels in three planes (blue, green, red: what the models were trained on).
 * The rectangle is {x, y: its centre; width, height; cos, sin: direction of its width}. Samples between pixels are interpolated, those outside are
 * the nearest inside. `tone(value, plane)` turns 0 to 255 into what the model wants.
 */
export function sample(image, rectangle, width, height, tone, planes = new Float32Array(3 * width * height), pitch = width) {
  const { pixels } = image;
  const { cos, sin } = rectangle;
  const [stepX, stepY] = [rectangle.width / width, rectangle.height / height];
  for (let row = 0; row < height; row++) {
    const v = (row + 0.5) * stepY - rectangle.height / 2;
    for (let column = 0; column < width; column++) {
      const u = (column + 0.5) * stepX - rectangle.width / 2;
      const x = Math.max(0, Math.min(image.width - 1, rectangle.x + u * cos - v * sin - 0.5));
      const y = Math.max(0, Math.min(image.height - 1, rectangle.y + u * sin + v * cos - 0.5));
      const [x0, y0] = [Math.floor(x), Math.floor(y)];
      const [x1, y1] = [Math.min(x0 + 1, image.width - 1), Math.min(y0 + 1, image.height - 1)];
      const [fx, fy] = [x - x0, y - y0];
      for (let plane = 0; plane < 3; plane++) {
        const at = (px, py) => pixels[4 * (py * image.width + px) + 2 - plane];
        const value = (at(x0, y0) * (1 - fx) + at(x1, y0) * fx) * (1 - fy) + (at(x0, y1) * (1 - fx) + at(x1, y1) * fx) * fy;
        planes[plane * height * pitch + row * pitch + column] = tone(value, plane);
      }
    }
  }
  return planes;
}
