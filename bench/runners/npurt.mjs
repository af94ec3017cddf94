/**
 * npurt in a process of its own. One thread means the inline driver: the caller runs everything, as the peers do with one thread.
 * As `pinned`, feeds and outputs lie in pinned memory, which the device uses in place.
 */
import { Device, Executor, Tensor } from "npurt";
import { InferenceSession, Tensor as OrtTensor } from "npurt/ort";
import { feedData, outputSample, serve } from "./serve.mjs";
import { openSession } from "./session.mjs";

const pinned = process.argv[2] === "pinned";
const threads = Number(process.argv[3]);
const device = await Device.open(
  threads > 1 ? { driver: "threads", cores: threads, memoryBytes: 2 ** 31 } : { driver: "inline", memoryBytes: 2 ** 31 },
);
await device.ready();

/** Models of files run through npurt/ort, by the same lines as the peers. */
const openFile = openSession({ InferenceSession, Tensor: OrtTensor }, { executionProviders: [{ name: "npurt", device }] });

/** A tensor in pinned memory, filled from `data` or left as it is. */
function pinnedTensor({ dtype, dims }, data) {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const array = device.allocatePinned(Math.max(1, count * Tensor.zeros(dtype, [1]).data.BYTES_PER_ELEMENT)).view(dtype, count);
  if (data !== undefined) array.set(data);
  return new Tensor(dtype, dims, array);
}

async function openBytes({ model, feeds }) {
  const shapes = Object.fromEntries(feeds.map((feed) => [feed.name, feed.dims]));
  const executor = await Executor.load(model, { device, shapes });
  const place = pinned ? pinnedTensor : ({ dtype, dims }, data) => new Tensor(dtype, dims, data);
  const inputs = Object.fromEntries(feeds.map((feed) => [feed.name, place(feed, feedData(feed))]));
  const outputs = executor.outputs.map(({ name, dtype }) => [name, { dtype, dims: executor.outputShapes[name] }]);
  const options = pinned ? { outputs: Object.fromEntries(outputs.map(([name, output]) => [name, pinnedTensor(output)])) } : undefined;
  return {
    run: () => executor.run(inputs, options),
    output: async () => outputSample((await executor.run(inputs, options))[executor.outputs[0].name].data),
    close: () => executor.dispose(),
  };
}

serve(
  (job) => (typeof job.model === "string" ? openFile(job) : openBytes(job)),
  () => ({ kernels: device.info().kernels.used, peakBytes: device.info().peakBytes }),
);
