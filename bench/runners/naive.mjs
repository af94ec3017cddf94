/**
 * npurt used naively, in a process of its own: every operator of a generated model is an executor by itself. To run one, buffers for all that goes in
 * and out are allocated, its inputs are copied to the device, it is launched and waited for, and its result is copied into a new array before the next
 * one starts. All buffers go back when the last operator has run. No fusion, no reuse of memory, no overlap. Weights are operands like all others: an
 * operator by itself does not know that they never change. What is kept from run to run are the operators: each is compiled once.
 */
import { Device, Executor } from "npurt";
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
  return { executor: await Executor.load(model, { device }), names, output };
}

async function open({ name }) {
  const graph = bertGraph(name);
  const steps = [];
  for (const node of graph.nodes) steps.push(await loadNode(node, graph));
  const weights = graph.initializers.filter(({ dtype }) => dtype === "float32").map(({ name, data }) => [name, data]);
  const feeds = graph.inputs.map((input) => [input.name, feedData(input)]);
  const [{ name: last }] = graph.outputs;
  const weightNames = new Set(weights.map(([name]) => name));
  const stream = device.createStream();
  const run = async () => {
    const values = new Map([...weights, ...feeds]);
    const allocated = [];
    for (const { executor, names, output } of steps) {
      const buffers = executor.prepare();
      allocated.push(buffers);
      for (const name of names) buffers.inputs[name].set(values.get(name));
      stream.launch(buffers);
      await stream.synchronize();
      values.set(output, buffers.outputs[output].slice());
    }
    for (const buffers of allocated) buffers.dispose();
    hostBytes = [...values].reduce((sum, [name, { byteLength }]) => sum + (weightNames.has(name) ? 0 : byteLength), 0);
    return values.get(last);
  };
  return {
    run,
    output: async () => outputSample(await run()),
    close: () => Promise.all(steps.map(({ executor }) => executor.dispose())),
  };
}

serve(open, () => ({ kernels: device.info().kernels.used, peakBytes: device.info().peakBytes + hostBytes }));
