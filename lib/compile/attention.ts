/**
 * Attention in parts: MatMul(Softmax(MatMul(q, turned k), scaled and masked), v) as exporters write it. A part of the pass `patterns`, which gives the
 * producer of a value and whether all that go are read by nobody else.
 */
import type { Node, Value } from "../graph/ir";
import { decode, encode, sizeOf, tensor } from "../graph/tensor";
import { fitsAttention, OWN } from "../ops/scaled-dot-product";
import { resolve } from "./infer";

/** From here on down a number that takes the place of a score hides its key as well as one that is added to it. */
const HIDING = -1e30;

/** A factor in these bounds can go from the scores to Q: it is a number in float32, and so are rows of Q times it. */
const [LEAST_SCALE, MOST_SCALE] = [2 ** -32, 2 ** 32];

export type Producer = (value: Value | undefined, ...ops: string[]) => Node | undefined;

export interface FoundAttention {
  /** They go. */
  readonly inner: readonly Node[];
  /** What stands in the place of the last product, in order. */
  readonly nodes: readonly Node[];
}

interface Scores {
  readonly q: Value;
  readonly turnedK: Value;
  readonly scale: number;
  readonly mask: Value | undefined;
  /** Nodes that have to come first. */
  readonly made: readonly Node[];
  readonly inner: readonly Node[];
}

export function findAttention(last: Node, producer: Producer): FoundAttention | undefined {
  const [weights, v] = last.inputs as [Value, Value];
  const softmax = producer(weights, "Softmax");
  if (!softmax || !isPlain(v)) {
    return undefined;
  }
  const { axis, $flattened } = resolve(softmax).attributes as { readonly axis: number; readonly $flattened: number };
  const rank = weights.dims!.length;
  const found = (axis + rank) % rank === rank - 1 && !$flattened ? scoresOf(softmax.inputs[0], producer, last.name) : undefined;
  if (!found) {
    return undefined;
  }
  const { q, turnedK, scale, mask, made, inner } = found;
  const kDims = (turnedK.dims as number[]).with(-2, turnedK.dims!.at(-1) as number).with(-1, turnedK.dims!.at(-2) as number);
  if (!fitsAttention(q.dims!, kDims, v.dims!)) {
    return undefined;
  }
  const k: Value = { name: `@${last.name}.key`, dtype: "float32", dims: kDims };
  const perm = [...kDims.keys()]
    .map(BigInt)
    .with(-2, BigInt(kDims.length - 1))
    .with(-1, BigInt(kDims.length - 2));
  const turn = nodeOf(`${last.name}/key`, "Transpose", [turnedK], k, new Map([["perm", perm]]));
  const core: Node = { ...last, op: "ScaledDotProduct", domain: OWN, opset: 1, inputs: [q, k, v, mask], attributes: new Map([["scale", scale]]) };
  return { inner: [softmax, ...inner], nodes: [...made, turn, core] };
}

const nodeOf = (name: string, op: string, inputs: Value[], output: Value, attributes: Node["attributes"] = new Map()): Node => ({
  name,
  op,
  domain: "",
  opset: 13,
  inputs,
  outputs: [output],
  attributes,
});

/** Weights are packed once for products; attention packs what it reads each time. */
const isPlain = (value: Value | undefined): value is Value => value?.dtype === "float32" && !value.constant && value.dims!.length >= 2;

/** From the operand of a softmax back to the product: at most one mask, then factors. */
function scoresOf(start: Value | undefined, producer: Producer, name: string): Scores | undefined {
  const dims = start?.dims?.join();
  const inner: Node[] = [];
  const made: Node[] = [];
  let [value, mask, scale] = [start, undefined as Value | undefined, 1];
  for (;;) {
    const node = producer(value, "MatMul", "Mul", "Div", "Add", "Where");
    if (!node || value!.dims!.join() !== dims || value!.dtype !== "float32") {
      return undefined;
    }
    inner.push(node);
    if (node.op === "MatMul") {
      const [q, turnedK] = node.inputs.map((input) => factored(input!, producer)) as [Factored, Factored];
      const whole = scale * q.factor * turnedK.factor;
      const found = { q: q.value, turnedK: turnedK.value, scale: whole, mask, made, inner: [...inner, ...q.inner, ...turnedK.inner] };
      const held = Math.abs(whole) >= LEAST_SCALE && Math.abs(whole) <= MOST_SCALE;
      return held && isPlain(q.value) && isPlain(turnedK.value) ? found : undefined;
    }
    const step = node.op === "Mul" || node.op === "Div" ? scaled(node) : mask || scale !== 1 ? undefined : masked(node, producer, name);
    if (!step) {
      return undefined;
    }
    made.push(...step.made);
    [value, mask, scale] = [step.value, step.mask ?? mask, scale * step.factor];
  }
}

interface Step {
  readonly value: Value;
  readonly factor: number;
  readonly mask?: Value;
  readonly made: readonly Node[];
}

function scaled(node: Node): Step | undefined {
  const [a, b] = node.inputs as [Value, Value];
  const which = node.op === "Mul" && scalarOf(a) !== undefined ? 0 : 1;
  const number = scalarOf(node.inputs[which]);
  const factor = number === undefined || node.op === "Mul" ? number : 1 / number;
  return factor === undefined || !Number.isFinite(factor) ? undefined : { value: which === 0 ? b : a, factor, made: [] };
}

/** scores + mask, Where(seen, scores, very low) or Where(hidden, very low, scores). */
function masked(node: Node, producer: Producer, name: string): Step | undefined {
  if (node.op === "Add") {
    const [a, b] = node.inputs as [Value, Value];
    const isScores = (value: Value): boolean =>
      producer(value, "MatMul", "Mul", "Div") !== undefined && value.dims!.join() === node.outputs[0]!.dims!.join();
    const scores = isScores(a) ? a : b;
    const mask = scores === a ? b : a;
    return mask.dtype === "float32" ? { value: scores, factor: 1, mask, made: [] } : undefined;
  }
  const [seen, ...branches] = node.inputs as [Value, Value, Value];
  const low = branches.findIndex((branch) => (scalarOf(branch) ?? 0) <= HIDING);
  if (low < 0) {
    return undefined;
  }
  const mask: Value = { name: `@${name}.mask`, dtype: "float32", dims: seen.dims! };
  const zero: Value = { name: `@${name}.zero`, dtype: "float32", dims: [], constant: encode(tensor("float32", [], [0])) };
  const inputs = [seen, ...(low === 0 ? [branches[0]!, zero] : [zero, branches[1]!])].map((each, i) => (i === 0 ? each : scalarValue(each)));
  return { value: branches[1 - low]!, factor: 1, mask, made: [nodeOf(`${name}/mask`, "Where", inputs, mask)] };
}

/** The same number without dims, so that it does not widen a mask. */
const scalarValue = (value: Value): Value => (value.dims!.length === 0 ? value : { ...value, dims: [], constant: { ...value.constant!, dims: [] } });

interface Factored {
  readonly value: Value;
  readonly factor: number;
  readonly inner: readonly Node[];
}

/** An operand of the product without the factor that exporters put on one or both of them. */
function factored(value: Value, producer: Producer): Factored {
  const node = producer(value, "Mul", "Div");
  const step = node && scaled(node);
  return step && step.value.dims!.join() === value.dims!.join()
    ? { value: step.value, factor: step.factor, inner: [node] }
    : { value, factor: 1, inner: [] };
}

/** The number of a constant with one element. */
export function scalarOf(value: Value | undefined): number | undefined {
  return value?.constant && sizeOf(value.dims as number[]) === 1 ? Number(decode(value.constant).data[0]) : undefined;
}
