/** The two real models of the spine, compiled and run tile by tile on the core, against their published outputs. */
import fs from "node:fs";
import { compileModel } from "../../dist/lib/compile/pipeline";
import type { CompileOptions } from "../../dist/lib/compile/types";
import { differences } from "./compare";
import { runOnDevice } from "./device";
import { hasSuites, modelFile, NO_SUITES, readTensor } from "./suite";

const CLOSE = { relative: 1e-3, absolute: 1e-4 };

describe("models", () => {
  if (!hasSuites) {
    test.skip(`skipped: ${NO_SUITES}`, () => undefined);
    return;
  }
  const run = (model: string, set: number, options: CompileOptions, seed = 1) => {
    const file = (name: string): string => modelFile(model, name);
    const compiled = compileModel(fs.readFileSync(file("model.onnx")), options);
    const feed = readTensor(file(`test_data_set_${set}/input_0.pb`));
    const [got] = runOnDevice(compiled, { [compiled.program.inputs[0]!.name]: feed }, seed);
    return { got: got!, want: readTensor(file(`test_data_set_${set}/output_0.pb`)) };
  };

  test.each([0, 1, 2])("mnist_8, data set %i", (set) => {
    const { got, want } = run("mnist_8", set, {});
    expect(differences(got, want, CLOSE)).toEqual([]);
  });

  test("super_resolution_10", () => {
    const { got, want } = run("super_resolution_10", 0, { shapes: { input: [1, 1, 224, 224] } });
    expect(differences(got, want, CLOSE)).toEqual([]);
  });

  test("the order of tiles and optional passes change nothing that counts", () => {
    const first = run("mnist_8", 0, {}, 1);
    const second = run("mnist_8", 0, {}, 99);
    expect(second.got.data).toEqual(first.got.data);
    const plain = run("mnist_8", 0, { disable: ["fuse", "layout", "dead"] });
    expect(differences(plain.got, plain.want, CLOSE)).toEqual([]);
  });
});
