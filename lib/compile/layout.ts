/**
 * layout: the memory order of each value. Convolutions and pools work on channels innermost; elementwise operators keep the order of the operand
 * that has their shape; everything else, and what the caller feeds, is row-major. An order is a preference for fresh blobs: lowering copies where
 * an operator needs another one.
 */
import type { Node, Value } from "../graph/ir";
import { findOp } from "../ops/registry";
import { channelsLast } from "../ops/views";
import { plainNodes } from "./control";
import type { CompileState } from "./pipeline";

export function chooseLayouts({ graph }: CompileState): void {
  for (const node of plainNodes(graph.nodes)) {
    const { layout } = findOp(node)!;
    if (layout === "channels_last") {
      setLayout(node.outputs[0], channelsLast(node.outputs[0]!.dims!.length));
    } else if (layout === "follow") {
      follow(node);
    }
  }
}

function follow(node: Node): void {
  for (const output of node.outputs) {
    const like =
      node.inputs.find((input) => input && !input.constant && input.dims?.join() === output?.dims?.join()) ??
      node.inputs.find((input) => input?.layout?.length === output?.dims?.length);
    setLayout(output, like?.layout);
  }
}

function setLayout(value: Value | undefined, layout: readonly number[] | undefined): void {
  if (value && layout) {
    value.layout = layout;
  }
}
