/** TensorFlow.js with its WebAssembly backend. It has no ONNX importer, so it runs only cases that say what they are in its words. */
import path from "node:path";
import { requirePeer } from "../peers.mjs";
import { feedData, outputSample, serve } from "./serve.mjs";

const threads = Number(process.argv[3]);
const tf = requirePeer("@tensorflow/tfjs-core");
const wasm = requirePeer("@tensorflow/tfjs-backend-wasm");
wasm.setWasmPaths(`${path.dirname(requirePeer.resolve("@tensorflow/tfjs-backend-wasm"))}/`);
if (threads > 1) wasm.setThreadsCount(threads);

const tensor = (feed) => tf.tensor(feedData(feed), feed.dims, feed.dtype);

/** Tensors that outlive one run, until their case closes. */
const kept = [];
function keep(made) {
  kept.push(tf.keep(made));
  return made;
}

/** Feeds arrive in ONNX layout; a convolution takes NHWC and HWIO here. */
const nhwc = (x) => keep(tf.transpose(x, [0, 2, 3, 1]));

const OPS = {
  matmul:
    ([a, b]) =>
    () =>
      tf.matMul(a, b),
  conv: ([x, w], { pad, relu }) => {
    const input = nhwc(x);
    const filter = keep(tf.transpose(w, [2, 3, 1, 0]));
    return relu ? () => tf.relu(tf.conv2d(input, filter, 1, pad)) : () => tf.conv2d(input, filter, 1, pad);
  },
  depthwise: ([x, w], { pad }) => {
    const input = nhwc(x);
    const filter = keep(tf.transpose(w, [2, 3, 0, 1]));
    return () => tf.depthwiseConv2d(input, filter, 1, pad);
  },
  maxPool: ([x], { size, stride }) => {
    const input = nhwc(x);
    return () => tf.maxPool(input, size, stride, "valid");
  },
  averagePool: ([x], { size, stride }) => {
    const input = nhwc(x);
    return () => tf.avgPool(input, size, stride, "valid");
  },
  addMulRelu:
    ([a, b, c]) =>
    () =>
      tf.relu(tf.mul(tf.add(a, b), c)),
  add:
    ([a, b]) =>
    () =>
      tf.add(a, b),
  sigmoid:
    ([x]) =>
    () =>
      tf.sigmoid(x),
  softmax:
    ([x]) =>
    () =>
      tf.softmax(x),
  sumRows:
    ([x]) =>
    () =>
      tf.sum(x, -1),
};

async function open({ tfjs, feeds = [] }) {
  if (tfjs === undefined) throw new Error("not a case for TensorFlow.js");
  await tf.setBackend("wasm");
  await tf.ready();
  const { op } = tf.tidy(() => {
    const inputs = [...feeds, ...(tfjs.weights ?? [])].map(tensor);
    return { op: OPS[tfjs.op](inputs.map(keep), tfjs) };
  });
  /** The result is read back, as the others do. (A typed array that leaves `tidy` would be searched for tensors, element by element.) */
  const run = () => {
    const result = tf.tidy(op);
    const data = result.dataSync();
    result.dispose();
    return data;
  };
  return { run, output: tfjs.layout === "nhwc" ? undefined : () => outputSample(run()), close: () => tf.dispose(kept.splice(0)) };
}

serve(open);
