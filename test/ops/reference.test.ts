/** References against the ONNX suite, and what every operator says about its own samples. */
import { AclError } from "../../dist/lib/errors/acl-error";
import { runPipeline } from "../../dist/lib/compile/pipeline";
import { evaluateGraph } from "../../dist/lib/ops/evaluate";
import { allOps } from "../../dist/lib/ops/registry";
import { differences } from "./compare";
import { referenceOf, sampleModel } from "./samples";
import { hasSuites, NO_SUITES, suiteCase } from "./suite";
import { deviceCases, isConstant } from "./suite-cases";

describe("samples", () => {
  for (const op of allOps()) {
    const name = op.names.onnx![0];
    test(`${name}: samples infer and evaluate`, () => {
      expect(op.samples.length).toBeGreaterThan(1);
      for (const sample of op.samples.filter((each) => !each.rejects)) {
        const outputs = referenceOf(sampleModel(op, sample));
        expect([sample.title, outputs.length]).toEqual([sample.title, sample.outputs]);
      }
    });
    for (const sample of op.samples.filter((each) => each.rejects)) {
      test(`${name} rejects: ${sample.title}`, () => {
        let thrown: unknown;
        try {
          runPipeline(sampleModel(op, sample).bytes, { stopAfter: "lower" });
        } catch (error) {
          thrown = error;
        }
        expect(thrown).toBeInstanceOf(AclError);
        expect((thrown as AclError).message).toMatch(sample.rejects!.text);
        expect((thrown as AclError).code).toBe(sample.rejects!.code);
      });
    }
  }
});

describe("ONNX suite", () => {
  if (!hasSuites) {
    test.skip(`skipped: ${NO_SUITES}`, () => undefined);
    return;
  }
  const cases = deviceCases();
  test("covers every operator that has cases", () => {
    expect(cases.length).toBeGreaterThan(250);
  });
  test.each(cases)("%s", (name) => {
    const { bytes, inputs, inputNames, outputs } = suiteCase(name, isConstant);
    const { graph } = runPipeline(bytes, { stopAfter: "infer", shapes: Object.fromEntries(inputNames.map((input, i) => [input, inputs[i]!.dims])) });
    const got = evaluateGraph(graph, Object.fromEntries(inputNames.map((input, i) => [input, inputs[i]!])));
    outputs.forEach((want, index) => {
      expect(differences(got[index]!, want, { relative: 1e-3, absolute: 1e-5 })).toEqual([]);
    });
  });
});
