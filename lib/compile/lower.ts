/** lower: nodes to instructions over views. Inputs and outputs are row-major blobs of the frame; whatever lives elsewhere is copied at the end. */
import { DTYPES } from "../graph/dtype";
import { describeNode, type Value } from "../graph/ir";
import { sizeOf } from "../graph/tensor";
import { nameInputs } from "../ops/define";
import { LoweredProgram, Lowering, Operand } from "../ops/lowering";
import { dense } from "../ops/views";
import { resolve } from "./infer";
import type { CompileState } from "./pipeline";

export function* lowerGraph(state: CompileState): Generator<void> {
  const { graph } = state;
  const program = new LoweredProgram();
  const bytes = ({ dtype, dims }: Value): number => sizeOf(dims as number[]) * DTYPES[dtype!].bytes;
  graph.inputs.forEach((value, input) => {
    const blob = program.blob(value.name, { input }, bytes(value));
    blob.offsetBytes = 0;
    program.views.set(value, dense(blob, value.dtype!, value.dims as number[]));
  });
  const outputBlobs = graph.outputs.map((value, output) => {
    const blob = program.blob(value.name, { output }, bytes(value));
    blob.offsetBytes = 0;
    if (!program.outputs.has(value)) {
      program.outputs.set(value, blob);
    }
    return blob;
  });
  for (const node of graph.nodes) {
    const { op, attributes } = resolve(node);
    const operands = nameInputs(
      op,
      node.inputs.map((input) => input && new Operand(input, program)),
      describeNode(node),
    );
    op.lower(new Lowering(program, node), operands, attributes);
    yield;
  }
  graph.outputs.forEach((value, index) => {
    const view = program.viewOf(value);
    if (view.blob !== outputBlobs[index] && sizeOf(view.dims) > 0) {
      const target = dense(outputBlobs[index]!, view.dtype, view.dims);
      program.instructions.push({ op: "copy", target, source: view, node: `output ${value.name}` });
    }
  });
  state.program = program;
}
