/** lower: nodes to instructions over views. Inputs and outputs are row-major blobs of the frame; whatever lives elsewhere is copied at the end. */
import { AclError } from "../errors/acl-error";
import { internal } from "../errors/make";
import { DTYPES } from "../graph/dtype";
import { describeNode, forNode, type Node, type Value } from "../graph/ir";
import { sizeOf } from "../graph/tensor";
import { nameInputs } from "../ops/define";
import { LoweredProgram, Lowering, Operand } from "../ops/lowering";
import { dense } from "../ops/views";
import { isControl, lowerControl } from "./control";
import { resolve } from "./infer";
import type { CompileState } from "./state";

const UNSUPPORTED = 100024;

function lowerNode(program: LoweredProgram, node: Node): void {
  const { op, attributes } = resolve(node);
  const operands = nameInputs(
    op,
    node.inputs.map((input) => input && new Operand(input, program)),
    describeNode(node),
  );
  if (!op.lower) {
    throw internal(`${describeNode(node)} was not expanded`);
  }
  op.lower(new Lowering(program, node), operands, attributes);
}

/** Memory for the outputs of a node that cannot run, so that the nodes behind it are looked at as well: one error lists them all. */
function standIn(program: LoweredProgram, node: Node): void {
  const b = new Lowering(program, node);
  node.outputs.forEach((_, index) => {
    if (b.has(index)) {
      b.target(index);
    }
  });
}

/** @throws AclError 100024 with every node that the device cannot run as it stands */
function throwRefused(refused: readonly AclError[]): void {
  const [first, ...rest] = refused;
  if (first && rest.length === 0) {
    throw first;
  }
  if (first) {
    const failures = refused.map(({ code, message, node }) => ({ code, text: message, ...(node === undefined ? {} : { node }) }));
    throw new AclError(UNSUPPORTED, `${refused.length} nodes are not supported as they are: ${failures.map(({ text }) => text).join("; ")}`, {
      failures,
    });
  }
}

function* lowerOne(program: LoweredProgram, node: Node, refused: AclError[]): Generator<void> {
  try {
    forNode(node, () => lowerNode(program, node));
  } catch (error) {
    if (!(error instanceof AclError) || error.code !== UNSUPPORTED) {
      throw error;
    }
    refused.push(error);
    standIn(program, node);
  }
  yield;
}

export function* lowerGraph(state: CompileState): Generator<void> {
  const { graph } = state;
  const program = new LoweredProgram(state.options);
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
  const refused: AclError[] = [];
  const lowerNodes = function* (nodes: readonly Node[]): Generator<void> {
    for (const node of nodes) {
      if (isControl(node)) {
        yield* lowerControl(program, node, lowerNodes);
        continue;
      }
      yield* lowerOne(program, node, refused);
    }
  };
  yield* lowerNodes(graph.nodes);
  throwRefused(refused);
  graph.outputs.forEach((value, index) => {
    const view = program.viewOf(value);
    if (view.blob !== outputBlobs[index] && sizeOf(view.dims) > 0) {
      const target = dense(outputBlobs[index]!, view.dtype, view.dims);
      program.instructions.push({ op: "copy", target, source: view, node: `output ${value.name}` });
    }
  });
  state.program = program;
}
