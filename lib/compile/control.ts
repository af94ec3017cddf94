/**
 * If: where the condition is known, the chosen branch takes the node's place while types are inferred; else both branches are lowered behind a BRANCH.
 * Branches see the values of the graph around them; the importer lists those behind the node's own inputs, so that every pass sees what is needed.
 */
import { AclError } from "../errors/acl-error";
import { isConcrete } from "../graph/dims";
import { describeNode, type Graph, isGraph, type Node, UNFIT_BRANCH, type Value } from "../graph/ir";
import { decode } from "../graph/tensor";
import { type LoweredProgram, Lowering } from "../ops/lowering";
import { inferLoop, lowerLoop } from "./loop";
import { bodyOf, capturedBy, type InferNodes, type LowerNodes } from "./loop-parts";

export const isIf = (node: Node): boolean => node.op === "If" && node.domain === "";
const CONTROL: ReadonlySet<string> = new Set(["If", "Loop", "Scan"]);
/** A node with graphs inside. */
export const isControl = (node: Node): boolean => CONTROL.has(node.op) && node.domain === "";
export const graphsOf = (node: Node): readonly Graph[] => (isIf(node) ? branchesOf(node) : [bodyOf(node)]);

const BRANCHES = ["then_branch", "else_branch"] as const;

export function branchesOf(node: Node): readonly [Graph, Graph] {
  const graphs = BRANCHES.map((name) => {
    const graph = node.attributes.get(name);
    if (!isGraph(graph) || graph.outputs.length < node.outputs.length || graph.inputs.length > 0) {
      throw new AclError(
        100023,
        `${describeNode(node)} needs the attribute "${name}": a graph without inputs and with ${node.outputs.length} outputs`,
      );
    }
    return graph;
  });
  return graphs as [Graph, Graph];
}

/** Every node of a graph and of the graphs inside it, without the control nodes themselves. */
export function plainNodes(nodes: readonly Node[]): Node[] {
  return nodes.flatMap((node) => (isControl(node) ? graphsOf(node).flatMap((graph) => plainNodes(graph.nodes)) : [node]));
}

/** Branches that cannot be typed with these shapes: taking one is a fault at run time. */
const impossible = new WeakMap<Graph, AclError>();

function giveUp(graph: Graph, why: AclError): void {
  impossible.set(graph, why);
  graph.nodes = [];
}

/** What stands for the node from now on. */
export function* inferControl(node: Node, inferNodes: InferNodes): Generator<void, Node[]> {
  return yield* isIf(node) ? inferIf(node, inferNodes) : inferLoop(node, inferNodes);
}

export function* lowerControl(program: LoweredProgram, node: Node, lowerNodes: LowerNodes): Generator<void> {
  yield* isIf(node) ? lowerIf(program, node, lowerNodes) : lowerLoop(program, node, lowerNodes);
}

function* inferIf(node: Node, inferNodes: InferNodes): Generator<void, Node[]> {
  const [whenTrue, whenFalse] = branchesOf(node);
  const condition = node.inputs[0];
  if (!condition) {
    throw new AclError(100021, `${describeNode(node)} lacks its condition`);
  }
  if (condition.constant) {
    return yield* inline(node, Number(decode(condition.constant).data[0]) ? whenTrue : whenFalse, inferNodes);
  }
  const failures: AclError[] = [];
  for (const graph of [whenTrue, whenFalse]) {
    try {
      graph.nodes = yield* inferNodes(graph.nodes);
    } catch (error) {
      if (!(error instanceof AclError)) {
        throw error;
      }
      failures.push(error);
      giveUp(graph, error);
    }
  }
  if (failures.length === 2) {
    throw failures[0]!;
  }
  node.outputs.forEach((output, index) => {
    if (output) {
      unify(node, output, index, [whenTrue, whenFalse]);
    }
  });
  const own = new Set([whenTrue, whenFalse].filter((graph) => !impossible.has(graph)).flatMap(capturedBy));
  node.inputs.splice(1, node.inputs.length, ...own);
  return [node];
}

function* inline(node: Node, graph: Graph, inferNodes: InferNodes): Generator<void, Node[]> {
  const results = node.outputs.flatMap((output, index): Node[] =>
    output
      ? [
          {
            name: `${node.name}.${output.name}`,
            op: "Identity",
            domain: "",
            opset: node.opset,
            inputs: [graph.outputs[index]],
            outputs: [output],
            attributes: new Map(),
          },
        ]
      : [],
  );
  return yield* inferNodes([...graph.nodes, ...results]);
}

/** One type for an output; a branch that gives another one does not fit these shapes. */
function unify(node: Node, output: Value, index: number, graphs: readonly Graph[]): void {
  const possible = graphs.filter((graph) => !impossible.has(graph));
  const declared = output.dims && isConcrete(output.dims) ? output.dims.join() : undefined;
  const fits = (graph: Graph): boolean => graph.outputs[index]!.dims?.join() === declared;
  const chosen = possible.find(fits) ?? possible[0]!;
  const { dtype, dims } = chosen.outputs[index]!;
  for (const graph of possible) {
    const other = graph.outputs[index]!;
    if (other.dtype !== dtype || other.dims?.join() !== dims?.join()) {
      const text = `${describeNode(node)}: its branches give ${dtype}[${dims}] and ${other.dtype}[${other.dims}]; a program has one shape for each value`;
      giveUp(graph, new AclError(100021, text));
    }
  }
  output.dtype = dtype!;
  output.dims = [...dims!];
}

function* lowerIf(program: LoweredProgram, node: Node, lowerNodes: LowerNodes): Generator<void> {
  const [whenTrue, whenFalse] = branchesOf(node);
  const b = new Lowering(program, node);
  const condition = program.viewOf(node.inputs[0]!);
  const [otherwise, end] = [program.label(), program.label()];
  const targets = node.outputs.map((output, index) => output && b.target(index));
  program.instructions.push({ op: "branch", condition, to: otherwise, node: node.name });
  for (const [graph, name] of [
    [whenTrue, BRANCHES[0]],
    [whenFalse, BRANCHES[1]],
  ] as const) {
    if (impossible.has(graph)) {
      program.instructions.push({
        op: "probe",
        probe: "unreachable",
        argument: 0,
        tiles: 1,
        node: `${node.name} (${name} ${UNFIT_BRANCH}`,
      });
    } else {
      yield* lowerNodes(graph.nodes);
      targets.forEach((target, index) => target && b.copy(target, program.viewOf(graph.outputs[index]!)));
    }
    if (graph === whenTrue) {
      program.instructions.push({ op: "branch", to: end, node: node.name }, { op: "label", label: otherwise, node: node.name });
    }
  }
  program.instructions.push({ op: "label", label: end, node: node.name });
}
