/** The ONNX backend suite, when NPURT_SUITES names the folder that holds it: single operators with inputs and expected outputs. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Tensor } from "../../dist/lib/graph/tensor";
import { decode } from "../../dist/lib/graph/tensor";
import { ModelProtoSchema, TensorProtoSchema } from "../../dist/lib/import/onnx/generated/schema";
import { importTensor } from "../../dist/lib/import/onnx/tensor";

const root = process.env["NPURT_SUITES"];
export const hasSuites = root !== undefined && fs.existsSync(root);
export const NO_SUITES = "NPURT_SUITES does not name the folder of the test suites";

export interface SuiteCase {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly inputNames: readonly string[];
}

/** Unpacked once per machine: the archive is never changed. */
function nodeFolder(): string {
  const target = path.join(os.tmpdir(), "npurt-onnx-suite");
  const done = path.join(target, ".complete");
  if (!fs.existsSync(done)) {
    fs.mkdirSync(target, { recursive: true });
    execFileSync("tar", ["xzf", path.join(root!, "onnx/data.tar.gz"), "-C", target]);
    fs.writeFileSync(done, "");
  }
  return path.join(target, "data/node");
}

export const suiteNames = (): string[] => (hasSuites ? fs.readdirSync(nodeFolder()).sort() : []);

export function operatorsOf(name: string): string[] {
  const model = fromBinary(ModelProtoSchema, fs.readFileSync(path.join(nodeFolder(), name, "model.onnx")));
  return [...new Set(model.graph!.node.map(({ opType, domain }) => (domain === "" || domain === "ai.onnx" ? opType : `${domain}.${opType}`)))];
}

export function readTensor(file: string): Tensor {
  return decode(importTensor(fromBinary(TensorProtoSchema, fs.readFileSync(file)), undefined, path.basename(file)));
}

function readFolder(folder: string, kind: string): Tensor[] {
  const files = fs.readdirSync(folder).filter((file) => file.startsWith(`${kind}_`));
  return files.map((_, index) => readTensor(path.join(folder, `${kind}_${index}.pb`)));
}

/** @param constant graph inputs that become initializers: those whose numbers have to be known when the model is compiled */
export function suiteCase(name: string, constant: (operator: string, position: number) => boolean): SuiteCase {
  const folder = path.join(nodeFolder(), name);
  const model = fromBinary(ModelProtoSchema, fs.readFileSync(path.join(folder, "model.onnx")));
  const graph = model.graph!;
  const data = path.join(folder, "test_data_set_0");
  const inputs = readFolder(data, "input");
  const kept: { name: string; value: Tensor }[] = [];
  graph.input.forEach((info, index) => {
    const value = inputs[index];
    if (!value) {
      return; // has an initializer
    }
    const asConstant = graph.node.some((node) => node.input.some((input, position) => input === info.name && constant(node.opType, position)));
    if (asConstant) {
      const proto = fromBinary(TensorProtoSchema, fs.readFileSync(path.join(data, `input_${index}.pb`)));
      proto.name = info.name;
      graph.initializer.push(proto);
    } else {
      kept.push({ name: info.name, value });
    }
  });
  graph.input = graph.input.filter(
    (info) => kept.some((each) => each.name === info.name) || graph.initializer.every((each) => each.name !== info.name),
  );
  return {
    name,
    bytes: toBinary(ModelProtoSchema, model),
    inputNames: kept.map((each) => each.name),
    inputs: kept.map((each) => each.value),
    outputs: readFolder(data, "output"),
  };
}

/** Path of a file of one of the real models. */
export const modelFile = (model: string, file: string): string => path.join(root ?? "", "models/model", model, file);
