/** Real models, compiled and run tile by tile on the core, against their published outputs. */
import fs from "node:fs";
import { compileModel, runPipeline } from "../../dist/lib/compile/pipeline";
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
  const run = (model: string, set: number, options: CompileOptions = {}, seed = 1) => {
    const folder = `test_data_set_${set}`;
    const bytes = fs.readFileSync(modelFile(model, "model.onnx"));
    const { info } = runPipeline(bytes, { stopAfter: "infer" });
    const feeds = Object.fromEntries(info.inputs.map(({ name }, i) => [name, readTensor(modelFile(model, `${folder}/input_${i}.pb`))]));
    const shapes = Object.fromEntries(Object.entries(feeds).map(([name, { dims }]) => [name, dims]));
    const got = runOnDevice(compileModel(bytes, { shapes, ...options }), feeds, seed);
    return { got, want: info.outputs.map((_, i) => readTensor(modelFile(model, `${folder}/output_${i}.pb`))) };
  };
  const expectClose = ({ got, want }: ReturnType<typeof run>): void =>
    want.forEach((tensor, i) => expect(differences(got[i]!, tensor, CLOSE)).toEqual([]));

  test.each([
    ["mnist_8", 0],
    ["mnist_8", 1],
    ["mnist_8", 2],
    ["super_resolution_10", 0],
    ["ultraface_rfb_320", 0],
    ["dtln_1", 0],
    ["dtln_2", 0],
    ["gtcrn", 0],
    ["gtcrn_simplified", 0],
    ["deeplab_mobilenetv2", 0],
    ["magika_v3_3", 0],
  ])("%s, data set %i", (model, set) => expectClose(run(model, set)));

  test.each(["dtln_1", "gtcrn_simplified", "ultraface_rfb_320"])("%s gives the same bits in any order of tiles", (model) => {
    expect(run(model, 0, {}, 99).got).toEqual(run(model, 0, {}, 1).got);
  });

  test.each(["mnist_8", "ultraface_rfb_320", "gtcrn_simplified", "dtln_1", "dtln_2", "magika_v3_3"])(
    "%s: the memory plan is near its bound",
    (model) => {
      const { plan } = runPipeline(fs.readFileSync(modelFile(model, "model.onnx")), {});
      expect(plan!.arenaBytes).toBeLessThanOrEqual(1.1 * plan!.largestLiveBytes);
    },
  );

  test("the order of tiles and optional passes change nothing that counts", () => {
    const first = run("mnist_8", 0, {}, 1);
    const second = run("mnist_8", 0, {}, 99);
    expect(second.got).toEqual(first.got);
    expectClose(run("mnist_8", 0, { disable: ["fuse", "layout", "dead"] }));
  });
});
