/**
 * The network of the digits example and its gradient, by hand, on typed arrays:
 * conv 5x5 (1 -> 8) relu pool 2, conv 3x3 (8 -> 16) relu pool 2, dense (784 -> 10), softmax.
 * It exists to make examples/digits/digits.onnx; the runtime itself never trains.
 */
import { CLASSES, SIDE } from "./dataset.mjs";

/** One convolution block: `same` padding, then relu, then 2x2 max pool. All planes are row-major, channel by channel. */
function block(inChannels, outChannels, kernel, side) {
  const half = side / 2;
  return {
    inChannels,
    outChannels,
    kernel,
    side,
    weights: new Float64Array(outChannels * inChannels * kernel * kernel),
    bias: new Float64Array(outChannels),
    plane: new Float64Array(side * side),
    pooled: new Float64Array(outChannels * half * half),
    winner: new Int32Array(outChannels * half * half),
  };
}

export function createNetwork(random) {
  const first = block(1, 8, 5, SIDE);
  const second = block(8, 16, 3, SIDE / 2);
  const features = second.pooled.length;
  const dense = { weights: new Float64Array(CLASSES * features), bias: new Float64Array(CLASSES), features };
  const parameters = [first.weights, first.bias, second.weights, second.bias, dense.weights, dense.bias];
  const fanIn = [25, 0, 72, 0, features, 0];
  for (const [index, values] of parameters.entries()) {
    if (fanIn[index] === 0) continue;
    const scale = Math.sqrt(6 / fanIn[index]) * (values === dense.weights ? 0.4 : 1);
    for (let i = 0; i < values.length; i++) values[i] = (2 * random() - 1) * scale;
  }
  return {
    first,
    second,
    dense,
    parameters,
    gradients: parameters.map((values) => new Float64Array(values.length)),
    firstPooledGradient: new Float64Array(first.pooled.length),
    secondPooledGradient: new Float64Array(features),
    probabilities: new Float64Array(CLASSES),
  };
}

/** Adds `weight` times the input plane, moved by (dy, dx), to the output plane. */
function accumulateShifted(plane, input, inputAt, side, dy, dx, weight) {
  const fromY = Math.max(0, -dy);
  const toY = Math.min(side, side - dy);
  const fromX = Math.max(0, -dx);
  const toX = Math.min(side, side - dx);
  for (let y = fromY; y < toY; y++) {
    const row = y * side;
    const source = inputAt + (y + dy) * side + dx;
    for (let x = fromX; x < toX; x++) plane[row + x] += weight * input[source + x];
  }
}

/** Relu and pool in one: the winner of each 2x2 window is where the gradient goes back to; -1 where relu cut it off. */
function poolPlane(layer, channel) {
  const { plane, pooled, winner, side } = layer;
  const half = side / 2;
  for (let y = 0; y < half; y++) {
    for (let x = 0; x < half; x++) {
      let best = 2 * y * side + 2 * x;
      for (const candidate of [best + 1, best + side, best + side + 1]) if (plane[candidate] > plane[best]) best = candidate;
      const at = (channel * half + y) * half + x;
      const live = plane[best] > 0;
      pooled[at] = live ? plane[best] : 0;
      winner[at] = live ? best : -1;
    }
  }
}

function forwardBlock(layer, input) {
  const { inChannels, outChannels, kernel, side, weights, bias, plane } = layer;
  const reach = (kernel - 1) / 2;
  for (let o = 0; o < outChannels; o++) {
    plane.fill(bias[o]);
    for (let i = 0; i < inChannels; i++) {
      for (let k = 0; k < kernel * kernel; k++) {
        const dy = Math.floor(k / kernel) - reach;
        const dx = (k % kernel) - reach;
        accumulateShifted(plane, input, i * side * side, side, dy, dx, weights[(o * inChannels + i) * kernel * kernel + k]);
      }
    }
    poolPlane(layer, o);
  }
}

/** Class probabilities of one digit; the array is reused by the next call. */
export function forward(network, pixels) {
  const { first, second, dense, probabilities } = network;
  forwardBlock(first, pixels);
  forwardBlock(second, first.pooled);
  let highest = -Infinity;
  for (let c = 0; c < CLASSES; c++) {
    let sum = dense.bias[c];
    for (let f = 0; f < dense.features; f++) sum += dense.weights[c * dense.features + f] * second.pooled[f];
    probabilities[c] = sum;
    highest = Math.max(highest, sum);
  }
  let total = 0;
  for (let c = 0; c < CLASSES; c++) total += probabilities[c] = Math.exp(probabilities[c] - highest);
  for (let c = 0; c < CLASSES; c++) probabilities[c] /= total;
  return probabilities;
}

/** Only winners carry a gradient: a quarter of the plane at most. `inputGradient` may be left out for the first layer. */
function backwardBlock(layer, input, pooledGradient, weightGradient, biasGradient, inputGradient) {
  const { inChannels, outChannels, kernel, side, weights, winner } = layer;
  const reach = (kernel - 1) / 2;
  const windows = (side * side) / 4;
  for (let at = 0; at < outChannels * windows; at++) {
    const gradient = pooledGradient[at];
    if (winner[at] < 0 || gradient === 0) continue;
    const o = Math.floor(at / windows);
    const y = Math.floor(winner[at] / side);
    const x = winner[at] % side;
    biasGradient[o] += gradient;
    for (let i = 0; i < inChannels; i++) {
      for (let ky = Math.max(0, reach - y); ky < Math.min(kernel, side + reach - y); ky++) {
        const source = (i * side + y + ky - reach) * side + x - reach;
        const w = ((o * inChannels + i) * kernel + ky) * kernel;
        for (let kx = Math.max(0, reach - x); kx < Math.min(kernel, side + reach - x); kx++) {
          weightGradient[w + kx] += gradient * input[source + kx];
          if (inputGradient) inputGradient[source + kx] += gradient * weights[w + kx];
        }
      }
    }
  }
}

/** Adds the gradient of the cross-entropy of one digit to `network.gradients`; returns its loss. */
export function backward(network, pixels, label) {
  const { first, second, dense, gradients, firstPooledGradient, secondPooledGradient } = network;
  const probabilities = forward(network, pixels);
  const loss = -Math.log(Math.max(probabilities[label], 1e-12));
  firstPooledGradient.fill(0);
  secondPooledGradient.fill(0);
  for (let c = 0; c < CLASSES; c++) {
    const delta = probabilities[c] - (c === label ? 1 : 0);
    gradients[5][c] += delta;
    for (let f = 0; f < dense.features; f++) {
      gradients[4][c * dense.features + f] += delta * second.pooled[f];
      secondPooledGradient[f] += delta * dense.weights[c * dense.features + f];
    }
  }
  backwardBlock(second, first.pooled, secondPooledGradient, gradients[2], gradients[3], firstPooledGradient);
  backwardBlock(first, pixels, firstPooledGradient, gradients[0], gradients[1]);
  return loss;
}
