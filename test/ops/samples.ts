/** A sample of an operator as a one-node model, its feeds, and what the reference says. */
import type { AnyOp } from "../../dist/lib/ops/define";
import type { Sample, SampleInput } from "../../dist/lib/ops/sample";
import { runPipeline } from "../../dist/lib/compile/pipeline";
import { evaluateGraph } from "../../dist/lib/ops/evaluate";
import type { Tensor } from "../../dist/lib/graph/tensor";
import { model } from "./models";

export interface SampleModel {
  readonly bytes: Uint8Array;
  readonly feeds: Readonly<Record<string, Tensor>>;
}

export function sampleModel(op: AnyOp, sample: Sample): SampleModel {
  const [name, newest, domain = ""] = op.names.onnx!;
  const inputs: string[] = [];
  const feeds: Record<string, Tensor> = {};
  const constants: Record<string, Tensor> = {};
  const add = (key: string, input: SampleInput): void => {
    inputs.push(key);
    (input.asConstant ? constants : feeds)[key] = input;
  };
  for (const pattern of op.inputs) {
    const key = pattern.replace(/^\.\.\.|\?$/g, "");
    const given = sample.inputs[key];
    if (pattern.startsWith("...")) {
      (given as readonly SampleInput[]).forEach((each, index) => add(`${key}${index}`, each));
    } else if (given) {
      add(key, given as SampleInput);
    } else {
      inputs.push("");
    }
  }
  while (inputs[inputs.length - 1] === "") {
    inputs.pop();
  }
  const outputs = Array.from({ length: sample.outputs }, (_, index) => `y${index}`);
  const bytes = model({
    nodes: [{ op: name, domain, inputs, outputs, name: "node", attributes: sample.attributes }],
    inputs: Object.entries(feeds).map(([key, { dtype, dims }]) => ({ name: key, dtype, dims })),
    outputs: outputs.map((key) => ({ name: key })),
    constants,
    opsets: { "": Math.max(1, sample.opset ?? newest), ...(domain === "" ? {} : { [domain]: newest }) },
  });
  return { bytes, feeds };
}

export function referenceOf({ bytes, feeds }: SampleModel): Tensor[] {
  return evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds);
}
