/** A model behind the interface of onnxruntime-common: `ort` is whatever package has it. */
import { feedData, outputSample } from "./serve.mjs";

/** The model's inputs with open dims set to 1. */
function feedsOf(session) {
  return session.inputMetadata
    .filter((input) => input.isTensor)
    .map(({ name, type, shape }) => ({ name, dtype: type, dims: shape.map((dim) => (typeof dim === "number" && dim > 0 ? dim : 1)) }));
}

/** Tensors for the outputs of a model that has run once, so that no further run allocates any. */
const outputsLike = (ort, results) =>
  Object.fromEntries(Object.entries(results).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data.slice(), dims)]));

/** With `preallocated`, runs write into tensors that are there. */
export const openSession =
  (ort, options, preallocated = false) =>
  async ({ model, feeds }) => {
    const session = await ort.InferenceSession.create(model, options);
    const inputs = Object.fromEntries((feeds ?? feedsOf(session)).map((feed) => [feed.name, new ort.Tensor(feed.dtype, feedData(feed), feed.dims)]));
    const outputs = preallocated ? outputsLike(ort, await session.run(inputs)) : undefined;
    return {
      run: outputs === undefined ? () => session.run(inputs) : () => session.run(inputs, outputs),
      output: async () => {
        const results = await session.run(inputs);
        return session.outputNames.flatMap((name) => outputSample(results[name].data));
      },
      close: () => session.release(),
    };
  };
