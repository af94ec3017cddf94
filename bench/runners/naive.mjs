/**
 * npurt used naively, in a process of its own: every operator of a generated model is executed by itself, with buffers of its own for all that goes in
 * and out; its inputs are copied to the device, it runs, and its result is copied back into a new array before the next one starts. No fusion, no
 * reuse of memory, no overlap. Weights are operands like all others: an operator by itself does not know that they never change.
 */
import { Device, Executor, Tensor } from "npurt";
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";
import { bertGraph } from "../model/bert.mjs";
import { feedData, outputSample, serve } from "./serve.mjs";

const threads = Number(process.argv[3]);
const device = await Device.open(
  threads > 1 ? { driver: "threads", cores: threads, memoryBytes: 2 ** 31 } : { driver: "inline", memoryBytes: 2 ** 31 },
);
await device.ready();
/** Bytes of results that were alive on the host at once: all of them, since nothing says when one is last used. Weights are not counted. */
let hostBytes = 0;

/** One operator as a model. Only shapes are constants. */
async function loadNode(node, { initializers, inputs, dims }) {
  const used = initializers.filter(({ name }) => node.inputs.includes(name));
  const constants = used.filter(({ dtype }) => dtype === "int64");
  const names = [...new Set(node.inputs)].filter((name) => !constants.some((constant) => constant.name === name));
  const known = [...inputs, ...used];
  const knownAs = (name) => known.find((value) => value.name === name) ?? { dtype: "float32", dims: dims.get(name) };
  const fed = names.map((name) => ({ name, dtype: knownAs(name).dtype, dims: knownAs(name).dims }));
  const [output] = node.outputs;
  const model = encodeModel({
    name: node.op,
    nodes: [node],
    initializers: constants,
    inputs: fed,
    outputs: [{ name: output, dtype: "float32", dims: dims.get(output) }],
  });
  return { executor: await Executor.load(model, { device, frames: 1 }), names, output };
}

async function open({ name }) {
  const graph = bertGraph(name);
  const steps = [];
  for (const node of graph.nodes) steps.push(await loadNode(node, graph));
  const weights = graph.initializers
    .filter(({ dtype }) => dtype === "float32")
    .map(({ name, dims, data }) => [name, new Tensor("float32", dims, data)]);
  const feeds = graph.inputs.map((input) => [input.name, new Tensor(input.dtype, input.dims, feedData(input))]);
  const [{ name: last }] = graph.outputs;
  const weightNames = new Set(weights.map(([name]) => name));
  const run = async () => {
    const values = new Map([...weights, ...feeds]);
    for (const { executor, names, output } of steps) {
      const results = await executor.run(Object.fromEntries(names.map((input) => [input, values.get(input)])));
      values.set(output, results[output]);
    }
    hostBytes = [...values].reduce((sum, [name, { data }]) => sum + (weightNames.has(name) ? 0 : data.byteLength), 0);
    return values.get(last);
  };
  return {
    run,
    output: async () => outputSample((await run()).data),
    close: () => Promise.all(steps.map(({ executor }) => executor.dispose())),
  };
}

serve(open, () => ({ kernels: device.info().kernels.used, peakBytes: device.info().peakBytes + hostBytes }));
