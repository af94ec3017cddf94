/** The two forms that attention expands to: the operator of one instruction, or products, softmax and elementwise operators. */
import type { Value } from "../graph/ir";
import type { Expansion } from "./expansion";
import { OWN } from "./scaled-dot-product";

/** What is added to the scores: 0, or minus infinity where a key must not be seen. Undefined when nothing is hidden. */
export function biasOf(
  g: Expansion,
  mask: Value | undefined,
  lengths: Value | undefined,
  causal: boolean,
  rows: number,
  before: number,
  total: number,
) {
  const [none, hidden] = [g.scalar(0), g.scalar(Number.NEGATIVE_INFINITY)];
  const parts: Value[] = [];
  if (mask) {
    const given = mask.dtype === "bool" ? g.call("Where", [mask, none, hidden]) : g.cast(mask, "float32");
    const missing = total - Number(given.dims![given.dims!.length - 1]);
    parts.push(missing > 0 ? g.call("Pad", [given, g.list(0, missing), hidden, g.list(-1)]) : given);
  }
  const columns = g.constant(
    "int64",
    [total],
    Array.from({ length: total }, (_, i) => i),
  );
  if (causal) {
    const own = g.constant(
      "int64",
      [rows, 1],
      Array.from({ length: rows }, (_, i) => i),
    );
    const offset = lengths
      ? g.call("Sub", [g.reshape(lengths, [Number(lengths.dims![0]), 1, 1, 1]), g.scalar(rows, "int64")])
      : g.scalar(before, "int64");
    parts.push(g.call("Where", [g.call("Less", [g.call("Add", [own, offset]), columns]), hidden, none]));
  }
  if (lengths) {
    const valid = g.call("Less", [columns, g.reshape(lengths, [Number(lengths.dims![0]), 1, 1, 1])]);
    parts.push(g.call("Where", [valid, none, hidden]));
  }
  return parts.length > 0 ? parts.reduce((sum, part) => g.call("Add", [sum, part])) : undefined;
}

/** Q, K and V [batch, heads, length, size] in float32, and what is added to the scores. */
type Operands = readonly [Value, Value, Value, Value | undefined];

/** One instruction. Heads that share a key are matrices that read the same one, or with one row each the rows of one matrix. */
export function asInstruction(
  g: Expansion,
  [q, k, v, bias]: Operands,
  groups: number,
  form: Record<"scale" | "causal" | "offset" | "zeros", number>,
): Value {
  const core = (operands: readonly (Value | undefined)[], causal = form.causal): Value =>
    g.calls(1, "ScaledDotProduct", operands, { ...form, causal }, OWN)[0]!;
  if (groups === 1) {
    return core([q, k, v, bias]);
  }
  const [batch, heads, rows, size] = q.dims as [number, number, number, number];
  const [, shared, keys, wide] = v.dims as [number, number, number, number];
  const asRows = rows === 1 && (!form.causal || form.offset + 1 >= keys);
  const lead = asRows ? [groups] : [groups, rows];
  const apart = (of: Value): Value => (asRows ? of : g.reshape(of, (of.dims as number[]).toSpliced(2, 0, 1)));
  const [b, h, r, c] = [1, 1, 1, ...((bias?.dims as number[]) ?? [])].slice(-4) as [number, number, number, number];
  const added = bias && g.reshape(bias, [b, ...(h === 1 ? [1, 1] : [shared, groups]), ...(asRows ? [] : [r]), c]);
  const y = core([g.reshape(q, [batch, shared, ...lead, size]), apart(k), apart(v), added], asRows ? 0 : form.causal);
  return g.reshape(y, [batch, heads, rows, wide]);
}

interface Scoring {
  readonly scale: number;
  readonly softcap: number;
  readonly qk_matmul_output_mode: number;
}

/** Products, softmax and what goes between them, where somebody wants to see or bend the scores. `hides`: a row may see nothing, and gives zeros. */
export function inParts(g: Expansion, [q, k, v, bias]: Operands, groups: number, attributes: Scoring, hides: boolean) {
  const { qk_matmul_output_mode: mode, softcap, scale } = attributes;
  const [batch, heads, rows, size] = q.dims as [number, number, number, number];
  const [, , total, wide] = v.dims as [number, number, number, number];
  // Heads that share a key stand below each other in one product: no key is repeated.
  const grouped = [batch, heads / groups, groups * rows];
  const full = [batch, heads, rows, total];
  const scaled = g.call("Mul", [q, g.scalar(scale)]);
  const raw = g.reshape(g.call("MatMul", [g.reshape(scaled, [...grouped, size]), g.transpose(k, [0, 1, 3, 2])]), full);
  const capped = softcap > 0 ? g.call("Mul", [g.call("Tanh", [g.call("Div", [raw, g.scalar(softcap)])]), g.scalar(softcap)]) : raw;
  const biased = bias ? g.call("Add", [capped, bias]) : capped;
  let weights = g.call("Softmax", [biased], { axis: -1 });
  if (hides) {
    const seen = g.call("ReduceMax", [bias, g.list(-1)], { keepdims: 1 });
    weights = g.call("Where", [g.call("Equal", [seen, g.scalar(Number.NEGATIVE_INFINITY)]), g.scalar(0), weights]);
  }
  const mixed = g.reshape(g.call("MatMul", [g.reshape(weights, [...grouped, total]), v]), [batch, heads, rows, wide]);
  return { mixed, shown: g.has(3) ? [raw, capped, biased, weights][mode] : undefined };
}
