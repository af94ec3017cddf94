/** npurt in a process of its own. One thread means the inline driver: the caller runs everything, as the peers do with one thread. */
import { Device, Executor, Tensor } from "npurt";
import { InferenceSession, Tensor as OrtTensor } from "npurt/ort";
import { feedData, outputSample, serve } from "./serve.mjs";
import { openSession } from "./session.mjs";

const threads = Number(process.argv[3]);
const device = await Device.open(
  threads > 1 ? { driver: "threads", cores: threads, memoryBytes: 2 ** 31 } : { driver: "inline", memoryBytes: 2 ** 31 },
);
await device.ready();

/** Models of files run through npurt/ort, by the same lines as the peers. */
const openFile = openSession({ InferenceSession, Tensor: OrtTensor }, { executionProviders: [{ name: "npurt", device }] });

async function openBytes({ model, feeds }) {
  const shapes = Object.fromEntries(feeds.map((feed) => [feed.name, feed.dims]));
  const executor = await Executor.load(model, { device, shapes });
  const inputs = Object.fromEntries(feeds.map((feed) => [feed.name, new Tensor(feed.dtype, feed.dims, feedData(feed))]));
  return {
    run: () => executor.run(inputs),
    output: async () => outputSample((await executor.run(inputs))[executor.outputs[0].name].data),
    close: () => executor.dispose(),
  };
}

serve(
  (job) => (typeof job.model === "string" ? openFile(job) : openBytes(job)),
  () => ({ kernels: device.info().kernels.used }),
);
