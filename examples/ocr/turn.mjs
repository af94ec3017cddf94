/** Which way up a line stands: input and output of a network with two classes, 0 and 180 degrees. */
import { sample } from "./image.mjs";

const [WIDTH, HEIGHT] = [192, 48];
/** Turning a line that stands well costs more than reading one that does not. */
const LEAST_CERTAINTY = 0.9;

/** {dims, data}: the rectangle of the picture, straightened and squeezed to the size that the network wants. */
export function classificationInput(image, box) {
  return { dims: [1, 3, HEIGHT, WIDTH], data: sample(image, box, WIDTH, HEIGHT, (value) => value / 127.5 - 1) };
}

export const isUpsideDown = ([, upsideDown]) => upsideDown > LEAST_CERTAINTY;

export const turned = (box) => ({ ...box, cos: -box.cos, sin: -box.sin });
