/** Every sample of every operator, and every suite case that we take, compiled and run tile by tile on the core: against the float64 reference. */
import { compileModel } from "../../dist/lib/compile/pipeline";
import { allOps } from "../../dist/lib/ops/registry";
import { differences } from "./compare";
import { runOnDevice } from "./device";
import { referenceOf, sampleModel } from "./samples";
import { hasSuites, NO_SUITES, suiteCase } from "./suite";
import { deviceCases, isConstant } from "./suite-cases";

const EXACT = { relative: 0, absolute: 0 };

describe("samples on the device", () => {
  for (const op of allOps()) {
    for (const sample of op.samples.filter((each) => !each.rejects)) {
      test(`${op.names.onnx![0]}: ${sample.title}`, () => {
        const made = sampleModel(op, sample);
        const want = referenceOf(made);
        for (const disable of [[], ["fuse", "layout", "dead"]]) {
          const got = runOnDevice(compileModel(made.bytes, { disable }), made.feeds);
          want.forEach((tensor, index) => {
            expect(differences(got[index]!, tensor, op.tolerance ?? EXACT)).toEqual([]);
          });
        }
      });
    }
  }
});

describe("ONNX suite on the device", () => {
  if (!hasSuites) {
    test.skip(`skipped: ${NO_SUITES}`, () => undefined);
    return;
  }
  test.each(deviceCases())("%s", (name) => {
    const { bytes, inputs, inputNames, outputs } = suiteCase(name, isConstant);
    const shapes = Object.fromEntries(inputNames.map((input, i) => [input, inputs[i]!.dims]));
    const got = runOnDevice(compileModel(bytes, { shapes }), Object.fromEntries(inputNames.map((input, i) => [input, inputs[i]!])));
    outputs.forEach((want, index) => {
      expect(differences(got[index]!, want, { relative: 1e-3, absolute: 1e-5 })).toEqual([]);
    });
  });
});
