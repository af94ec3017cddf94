/** A model behind the interface of onnxruntime-common: `ort` is whatever package has it. */
import { feedData, outputSample } from "./serve.mjs";

/** The model's inputs with open dims set to 1. */
function feedsOf(session) {
  return session.inputMetadata
    .filter((input) => input.isTensor)
    .map(({ name, type, shape }) => ({ name, dtype: type, dims: shape.map((dim) => (typeof dim === "number" && dim > 0 ? dim : 1)) }));
}

export const openSession =
  (ort, options) =>
  async ({ model, feeds }) => {
    const session = await ort.InferenceSession.create(model, options);
    const inputs = Object.fromEntries((feeds ?? feedsOf(session)).map((feed) => [feed.name, new ort.Tensor(feed.dtype, feedData(feed), feed.dims)]));
    return {
      run: () => session.run(inputs),
      output: async () => {
        const results = await session.run(inputs);
        return session.outputNames.flatMap((name) => outputSample(results[name].data));
      },
      close: () => session.release(),
    };
  };
