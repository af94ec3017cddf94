/** Layers of models that are run chunk by chunk: what the next chunk needs of this one goes in and out beside the data. */
import { formatDims, shapeError } from "../graph/dims";
import { elements, roundTo, sizeOf } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { defineOp, string } from "./define";
import { fixed, noise, ramp, rejects, sample } from "./sample";

const ACTIVATIONS: readonly string[] = ["none", "silu", "swish"];

export const CausalConvWithState = defineOp({
  names: { onnx: ["CausalConvWithState", 27] },
  inputs: ["x", "weights", "bias?", "past?"],
  outputs: 2,
  attributes: { activation: string("none") },
  infer: ({ x, weights, past }, { activation }, { node }) => {
    requireDtype(x.dtype, "float", node);
    const [batch, channels] = x.dims;
    const [filters, one, taps] = weights.dims;
    const state = [batch!, channels!, Number(taps) - 1];
    if (x.dims.length !== 3 || weights.dims.length !== 3 || one !== 1 || filters !== channels || (past && past.dims.join() !== state.join())) {
      throw shapeError(
        `${node}: ${formatDims(x.dims)} needs a filter of each channel and a state ${formatDims(state)}, not ${formatDims(weights.dims)}`,
      );
    }
    if (!ACTIVATIONS.includes(activation)) {
      throw shapeError(`${node}: activation "${activation}" is none of ${ACTIVATIONS.join(", ")}`);
    }
    return [
      { dtype: x.dtype, dims: x.dims },
      { dtype: x.dtype, dims: state },
    ];
  },
  reference: ({ x, weights, bias, past }, { activation }, types) => {
    const [, channels, length] = x.dims as [number, number, number];
    const taps = weights.dims[2]!;
    const read = (row: number, at: number): number =>
      at >= 0 ? (x.data[row * length + at] as number) : past ? (past.data[row * (taps - 1) + at + taps - 1] as number) : 0;
    const [y, state] = types.map(({ dtype, dims }) => ({ dtype, dims, data: elements(dtype, sizeOf(dims)) as Float64Array }));
    for (let row = 0; row < x.data.length / Math.max(1, length); row++) {
      const channel = row % channels;
      for (let at = 0; at < length; at++) {
        let sum = bias ? (bias.data[channel] as number) : 0;
        for (let k = 0; k < taps; k++) {
          sum += (weights.data[channel * taps + k] as number) * read(row, at + k - taps + 1);
        }
        y!.data[row * length + at] = roundTo(x.dtype, activation === "none" ? sum : sum / (1 + Math.exp(-sum)));
      }
      for (let k = 0; state && k < taps - 1; k++) {
        state.data[row * (taps - 1) + k] = read(row, length - taps + 1 + k);
      }
    }
    return state ? [y!, state] : [y!];
  },
  expand: (g, { x, weights, bias, past }, { activation }) => {
    const [batch, channels, length] = x.dims as [number, number, number];
    const before = (weights.dims![2] as number) - 1;
    const zeros = (): ReturnType<typeof g.scalar> =>
      g.constant(x.dtype!, [batch, channels, before], new Array<number>(batch * channels * before).fill(0));
    const whole = before > 0 ? g.call("Concat", [past ?? zeros(), x], { axis: 2 }) : x;
    const sums = g.call("Conv", [whole, weights, bias], { group: channels });
    return [activation === "none" ? sums : g.call("Swish", [sums]), g.slice(whole, 2, length, length + before)];
  },
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "f32 sums over taps" },
  samples: () => [
    sample("from nothing", { x: noise([2, 3, 6]), weights: fixed(noise([3, 1, 4], 2)) }, { outputs: 2 }),
    sample(
      "a step, with bias, state and activation",
      { x: noise([1, 3, 1]), weights: fixed(noise([3, 1, 4], 2)), bias: fixed(noise([3], 3)), past: noise([1, 3, 3], 4) },
      { attributes: { activation: "silu" as never }, outputs: 2 },
    ),
    rejects("a state of another length", { x: ramp([1, 2, 4]), weights: fixed(ramp([2, 1, 3])), past: ramp([1, 2, 3]) }, 100021, /state \[1,2,2\]/),
  ],
});
