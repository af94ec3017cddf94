/** onnxruntime-web (WebAssembly) or onnxruntime-node (native), as the first argument says, in a process of its own. */
import { requirePeer } from "../peers.mjs";
import { feedData, outputSample, serve } from "./serve.mjs";

const name = process.argv[2];
const threads = Number(process.argv[3]);
const ort = requirePeer(name);
if (name === "onnxruntime-web") ort.env.wasm.numThreads = threads;
ort.env.logLevel = "error";

const options =
  name === "onnxruntime-web"
    ? { executionProviders: ["wasm"], logSeverityLevel: 3 }
    : { executionProviders: ["cpu"], logSeverityLevel: 3, intraOpNumThreads: threads, interOpNumThreads: 1, executionMode: "sequential" };

function tensor(feed) {
  const data = feedData(feed);
  return new ort.Tensor(feed.dtype, data, feed.dims);
}

/** The model's inputs with open dims set to 1. */
function feedsOf(session) {
  return session.inputMetadata
    .filter((input) => input.isTensor)
    .map(({ name: input, type, shape }) => ({
      name: input,
      dtype: type,
      dims: shape.map((dim) => (typeof dim === "number" && dim > 0 ? dim : 1)),
    }));
}

async function open({ model, feeds }) {
  const session = await ort.InferenceSession.create(model, options);
  const inputs = Object.fromEntries((feeds ?? feedsOf(session)).map((feed) => [feed.name, tensor(feed)]));
  return {
    run: () => session.run(inputs),
    output: async () => outputSample((await session.run(inputs))[session.outputNames[0]].data),
    close: () => session.release(),
  };
}

serve(open);
