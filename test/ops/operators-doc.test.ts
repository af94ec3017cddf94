/** docs/operators.md is what the registry says. `NPURT_WRITE_DOCS=1 npx jest test/ops/operators-doc` writes it anew. */
import fs from "node:fs";
import path from "node:path";
import type { AnyOp } from "../../dist/lib/ops/define";
import { allOps, NEWEST_OPSET } from "../../dist/lib/ops/registry";
import { SEQUENCE_OPS } from "../../dist/lib/ort/sequences";
import { STRING_OPS } from "../../dist/lib/ort/strings";

const file = path.join(__dirname, "../../docs/operators.md");

const howOf = (op: AnyOp): string => (op.staged ? "constants; on the host in `npurt/ort`" : op.lower ? "on the device" : "as other operators");
const nameOf = (op: AnyOp): string => `${op.names.onnx![2] ? `${op.names.onnx![2]}.` : ""}${op.names.onnx![0]}`;

function page(): string {
  const ops = allOps().toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const rows = ops.map(
    (op) =>
      `| ${nameOf(op)} | ${op.names.onnx![2] ? op.names.onnx![1] : Math.max(op.names.onnx![1], NEWEST_OPSET)} | ${howOf(op)} | ${op.samples.length} |`,
  );
  return [
    "# Operators",
    "",
    "Made from the operators themselves by `test/ops/operators-doc.test.ts`; do not edit. Every form from operator set 1 up to the one named is taken.",
    "*Samples* are the checks against float64 that each operator carries; the ONNX backend suite comes on top.",
    "",
    `${ops.length} operators, If, Loop and Scan, and ${SEQUENCE_OPS.size + 1} operators on sequences and optionals.`,
    "",
    "| Operator | Up to opset | Where it runs | Samples |",
    "|---|---|---|---|",
    ...rows,
    "",
    "## Control flow",
    "",
    "If, Loop and Scan run on the device; their bodies see the values around them. A body keeps the shapes of its state; where they change and the number",
    "of turns is known when the model is compiled, the loop is written out. Scan in its form before operator set 9 is refused.",
    "",
    "## In stages, in `npurt/ort` only",
    "",
    "A program has fixed shapes. Where a result is as large as the numbers make it, and for sequences, optionals and strings, a session of `npurt/ort` splits",
    "the model: programs for the device, and between them these on the host. Loops around them run on the host as well. Equal and Identity take strings, too.",
    "",
    `${[...SEQUENCE_OPS.keys(), ...[...STRING_OPS.keys()].map((key) => key.replace(/^:/, "").replace(":", ".")), "SequenceMap", ...ops.filter(({ staged }) => staged).map(nameOf)].toSorted().join(", ")}.`,
    "",
    "## Refused",
    "",
    "ImageDecoder (decode before the model: `sharp` or `pngjs` give the same tensor), other operators on strings, complex numbers as element types,",
    "training (Gradient, optimizers, dropout that drops), random numbers, trees and maps. One error lists every node of a model that is not supported.",
    "",
  ].join("\n");
}

test("docs/operators.md is up to date", () => {
  if (process.env["NPURT_WRITE_DOCS"]) {
    fs.writeFileSync(file, page());
  }
  // Compared as a whole: the lines are many.
  expect(
    fs.existsSync(file) && fs.readFileSync(file, "utf8") === page() ? "up to date" : "run NPURT_WRITE_DOCS=1 npx jest test/ops/operators-doc",
  ).toBe("up to date");
});
