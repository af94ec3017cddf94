/** Attention in the forms of onnxruntime's exporters (domain com.microsoft), said in ONNX's Attention and RotaryEmbedding. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import type { Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { Attention as Standard } from "./attention";
import { CLOSE, CONTRIB } from "./contrib";
import { type ConcreteType, defineOp, float, int, ints } from "./define";
import type { Expansion } from "./expansion";
import { multiply } from "./matmul";
import { fixed, noise, rejects, sample, values } from "./sample";

/** What is added to the scores of keys that a mask hides. */
const HIDDEN = -10000;

/** A tensor of the reference as a function of its place. */
export const make = (dims: readonly number[], at: (...place: number[]) => number): Tensor => {
  const data = new Float64Array(dims.reduce((a, b) => a * b, 1));
  const place = new Array<number>(dims.length).fill(0);
  for (let i = 0; i < data.length; i++) {
    data[i] = at(...place);
    for (let axis = dims.length - 1; axis >= 0 && ++place[axis]! === dims[axis]; axis--) place[axis] = 0;
  }
  return { dtype: "float64", dims, data };
};
export const read = ({ dims, data }: Tensor, ...place: number[]): number =>
  Number(data[dims.reduce((at, dim, axis) => at * dim + (dim === 1 ? 0 : place[axis + place.length - dims.length]!), 0)]);

/** Whether a mask of keys lets batch `b`, row `r` see column `c`: lengths [B], ends and starts [2B], or ones and zeros [B, T] or [B, S, T]. */
function sees(mask: Tensor, batch: number, b: number, r: number, c: number): boolean {
  if (mask.dims.length === 1) {
    return c < Number(mask.data[b]) && (mask.dims[0] === batch || c >= Number(mask.data[batch + b]));
  }
  return (mask.dims.length === 2 ? read(mask, b, c) : read(mask, b, r, c)) !== 0;
}

/** The same as what is added to the scores [B, 1, S or 1, T]. */
function hiding(g: Expansion, mask: Value, batch: number, total: number, filter: number): Value {
  const columns = g.constant(
    "int32",
    [total],
    Array.from({ length: total }, (_, i) => i),
  );
  let seen: Value;
  if (mask.dims!.length === 1) {
    const part = (at: number): Value => g.reshape(g.slice(g.cast(mask, "int32"), 0, at * batch, (at + 1) * batch), [batch, 1, 1, 1]);
    seen = g.call("Less", [columns, part(0)]);
    if (mask.dims![0] === 2 * batch && batch > 0) {
      seen = g.call("And", [seen, g.call("GreaterOrEqual", [columns, part(1)])]);
    }
  } else {
    const rows = mask.dims!.length === 3 ? (mask.dims![1] as number) : 1;
    seen = g.cast(g.reshape(mask, [batch, 1, rows, total]), "bool");
  }
  return g.call("Where", [seen, g.scalar(0), g.scalar(filter)]);
}

function checkMask(mask: { readonly dims?: readonly Dim[] | undefined } | undefined, batch: Dim, node: string): void {
  const dims = mask?.dims;
  if (dims && (dims.length > 3 || (dims.length === 1 && typeof batch === "number" && dims[0] !== batch && dims[0] !== 2 * batch))) {
    throw new AclError(
      100024,
      `${node}: a mask ${formatDims(dims)} is not supported; lengths, ends and starts, [batch, keys] and [batch, rows, keys] are`,
    );
  }
}

interface Scores {
  readonly mask: Tensor | undefined;
  readonly bias: Tensor | undefined;
  readonly filter: number;
}
/** Mask and bias as one tensor that is added to the scores. */
function addedTo({ mask, bias, filter }: Scores, [batch, heads, rows, total]: readonly [number, number, number, number]): Tensor | undefined {
  if (!mask && !bias) return undefined;
  return make([batch, heads, rows, total], (b, h, r, c) => (mask && !sees(mask, batch, b, r, c) ? filter : 0) + (bias ? read(bias, b, h, r, c) : 0));
}
export const sumOf = (g: Expansion, parts: readonly (Value | undefined)[]): Value | undefined =>
  parts.filter((part) => part !== undefined).reduce<Value | undefined>((sum, part) => (sum ? g.call("Add", [sum, part]) : part), undefined);

export const asType =
  (types: readonly ConcreteType[]) =>
  (tensor: Tensor, index: number): Tensor => ({ ...tensor, dtype: types[index]!.dtype, dims: types[index]!.dims });

/** ONNX's Attention over heads; of what it gives, the sums with their heads side by side again, and the keys and values to come, where they are wanted. */
export function attended(
  g: Expansion,
  operands: readonly (Value | undefined)[],
  attributes: Parameters<Expansion["calls"]>[3],
): (Value | undefined)[] {
  const [sums, keys, values] = g.calls(3, "Attention", operands, attributes) as [Value, Value, Value];
  const [batch, heads, length, size] = sums.dims as [number, number, number, number];
  const y = g.reshape(g.transpose(sums, [0, 2, 1, 3]), [batch, length, heads * size]);
  return [y, g.has(1) ? keys : undefined, g.has(2) ? values : undefined];
}

export const scaleOf = (scale: number): number | undefined => (scale === 0 ? undefined : scale);

const MASKED = { num_heads: int(1), scale: float(0), unidirectional: int(0), mask_filter_value: float(HIDDEN) } as const;

export const Attention = defineOp({
  names: { onnx: ["Attention", 1, CONTRIB] },
  inputs: ["x", "weights", "bias?", "mask?", "past?", "scores?"],
  outputs: 2,
  attributes: { ...MASKED, qkv_hidden_sizes: ints(), do_rotary: int(0), rotary_embedding_dim: int(0), past_present_share_buffer: int(0) },
  infer: ({ x, weights, mask, past }, { num_heads, qkv_hidden_sizes, do_rotary }, { node, outputs }) => {
    requireDtype(x.dtype, "float", node);
    const width = weights.dims[1];
    if (x.dims.length !== 3 || weights.dims.length !== 2 || typeof width !== "number" || do_rotary) {
      throw shapeError(
        `${node}: data ${formatDims(x.dims)} and weights ${formatDims(weights.dims)}${do_rotary ? " with do_rotary" : ""} are not supported`,
      );
    }
    const sizes = qkv_hidden_sizes ?? [width / 3, width / 3, width / 3];
    if (sizes.length !== 3 || sizes[0] !== sizes[1] || sizes[0]! + sizes[1]! + sizes[2]! !== width || sizes.some((size) => size % num_heads !== 0)) {
      throw shapeError(`${node}: ${width} columns do not divide into queries, keys and values [${sizes}] of ${num_heads} heads`);
    }
    checkMask(mask, x.dims[0]!, node);
    const before = past?.dims[3] ?? 0;
    const length = x.dims[1]!;
    const total = typeof before === "number" && typeof length === "number" ? before + length : `${before}+${length}`;
    return [
      { dtype: x.dtype, dims: [x.dims[0]!, length, sizes[2]!] },
      { dtype: x.dtype, dims: [2, x.dims[0]!, num_heads, total, sizes[0]! / num_heads] },
    ].slice(0, outputs);
  },
  reference: ({ x, weights, bias, mask, past, scores }, { num_heads, scale, unidirectional, mask_filter_value, qkv_hidden_sizes }, types) => {
    const [batch, length] = x.dims as [number, number];
    const sizes = qkv_hidden_sizes ?? new Array<number>(3).fill(weights.dims[1]! / 3);
    const product = multiply(x, weights, "float64");
    const starts = [0, sizes[0]!, sizes[0]! + sizes[1]!];
    const [q, k, v] = sizes.map((size, part) =>
      make([batch, num_heads, length, size / num_heads], (b, h, s, c) => {
        const column = starts[part]! + (h * size) / num_heads + c;
        return read(product, b, s, column) + (bias ? Number(bias.data[column]) : 0);
      }),
    ) as [Tensor, Tensor, Tensor];
    const pastOf = (which: number): Tensor | undefined => past && make(past.dims.slice(1), (...place) => read(past, which, ...place));
    const before = past?.dims[3] ?? 0;
    const added = addedTo({ mask, bias: scores, filter: mask_filter_value }, [batch, num_heads, length, before + length]);
    const [y, keys, all] = attend(
      { q, k, v, ...(added ? { mask: added } : {}), ...(past ? { pastKey: pastOf(0)!, pastValue: pastOf(1)! } : {}) },
      { is_causal: unidirectional, scale: scaleOf(scale) },
    ) as [Tensor, Tensor, Tensor];
    const flat = make([batch, length, sizes[2]!], (b, s, c) => read(y, b, Math.floor((c * num_heads) / sizes[2]!), s, c % (sizes[2]! / num_heads)));
    const present = types.length > 1 ? make(types[1]!.dims, (which, ...place) => read(which ? all : keys, ...place)) : undefined;
    return [flat, ...(present ? [present] : [])].map(asType(types));
  },
  expand: (g, { x, weights, bias, mask, past, scores }, { num_heads, scale, unidirectional, mask_filter_value, qkv_hidden_sizes }) => {
    const [batch, length] = x.dims as [number, number];
    const width = weights.dims![1] as number;
    const sizes = qkv_hidden_sizes ?? [width / 3, width / 3, width / 3];
    const product = g.call("MatMul", [x, weights]);
    const parts = g.calls(3, "Split", [bias ? g.call("Add", [product, bias]) : product, g.list(...sizes)], { axis: 2 });
    const [q, k, v] = parts.map((part, i) => g.transpose(g.reshape(part, [batch, length, num_heads, sizes[i]! / num_heads]), [0, 2, 1, 3]));
    const pastOf = (which: number): Value | undefined => past && g.reshape(g.slice(past, 0, which, which + 1), past.dims!.slice(1) as number[]);
    const total = length + Number(past?.dims?.[3] ?? 0);
    const added = sumOf(g, [mask && hiding(g, mask, batch, total, mask_filter_value), scores && g.cast(scores, "float32")]);
    const [y, keys, all] = g.calls(3, "Attention", [q, k, v, added, pastOf(0), pastOf(1)], { is_causal: unidirectional, scale: scaleOf(scale) }) as [
      Value,
      Value,
      Value,
    ];
    const flat = g.reshape(g.transpose(y, [0, 2, 1, 3]), [batch, length, sizes[2]!]);
    const present = (): Value =>
      g.call(
        "Concat",
        [keys, all].map((each) => g.reshape(each, [1, ...(each.dims as number[])])),
        { axis: 0 },
      );
    return [flat, g.has(1) ? present() : undefined];
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "lengths",
      { x: noise([2, 3, 8]), weights: fixed(noise([8, 24], 2)), bias: fixed(noise([24], 3)), mask: values("int32", [2], [2, 3]) },
      { attributes: { num_heads: 2 } },
    ),
    sample(
      "past, causal, bias of scores",
      { x: noise([1, 2, 8]), weights: fixed(noise([8, 24], 2)), past: noise([2, 1, 2, 3, 4], 4), scores: noise([1, 2, 2, 5], 5) },
      { attributes: { num_heads: 2, unidirectional: 1 }, outputs: 2 },
    ),
    sample(
      "a mask of keys",
      { x: noise([2, 3, 4]), weights: fixed(noise([4, 12], 2)), mask: values("int32", [2, 3], [1, 1, 0, 0, 1, 1]) },
      { attributes: { num_heads: 1 } },
    ),
    rejects("columns that do not divide", { x: noise([1, 2, 4]), weights: fixed(noise([4, 10])) }, 100021, /do not divide/),
  ],
});

/** The reference of ONNX's Attention on four-dimensional operands, in float64. */
export function attend(
  inputs: Readonly<Record<string, Tensor | undefined>>,
  given: { readonly is_causal: number; readonly scale: number | undefined; readonly softcap?: number },
) {
  const [q, k, v] = [inputs["q"]!, inputs["k"]!, inputs["v"]!];
  const total = k.dims[2]! + (inputs["pastKey"]?.dims[2] ?? 0);
  const at = (of: Tensor, length: number): ConcreteType => ({ dtype: "float64", dims: of.dims.with(2, length) });
  const types = [{ dtype: "float64" as const, dims: [...q.dims.slice(0, 3), v.dims[3]!] }, at(k, total), at(v, total)];
  const attributes = { q_num_heads: undefined, kv_num_heads: undefined, softcap: 0, qk_matmul_output_mode: 0, softmax_precision: 0, ...given };
  return Standard.reference(inputs as never, attributes as never, types);
}

/** [B, L, heads * size] as [B, heads, L, size]. */
export const parted = (of: Tensor, heads: number, bias?: Tensor, from = 0): Tensor => {
  const [batch, length, width] = of.dims as [number, number, number];
  const size = width / heads;
  return make([batch, heads, length, size], (b, h, s, c) => read(of, b, s, h * size + c) + (bias ? Number(bias.data[from + h * size + c]) : 0));
};
export const joined = (of: Tensor): Tensor => {
  const [batch, heads, length, size] = of.dims as [number, number, number, number];
  return make([batch, length, heads * size], (b, s, c) => read(of, b, Math.floor(c / size), s, c % size));
};

export const MultiHeadAttention = defineOp({
  names: { onnx: ["MultiHeadAttention", 1, CONTRIB] },
  inputs: ["q", "k", "v", "bias?", "mask?", "scores?", "pastKey?", "pastValue?"],
  outputs: 3,
  attributes: MASKED,
  infer: ({ q, k, v, mask, pastKey }, { num_heads }, { node, outputs }) => {
    requireDtype(q.dtype, "float", node);
    const cross = k.dims.length === 4;
    const width = v.dims[cross ? 3 : 2];
    if (q.dims.length !== 3 || (k.dims.length !== 3 && !cross) || v.dims.length !== k.dims.length || typeof width !== "number") {
      throw shapeError(`${node}: Q ${formatDims(q.dims)}, K ${formatDims(k.dims)}, V ${formatDims(v.dims)}: packed forms are not supported`);
    }
    checkMask(mask, q.dims[0]!, node);
    const [before, length] = [pastKey?.dims[2] ?? 0, k.dims[cross ? 2 : 1]!];
    const total = typeof before === "number" && typeof length === "number" ? before + length : `${before}+${length}`;
    const size = (of: Dim): Dim => (typeof of === "number" ? of / num_heads : `${of}/${num_heads}`);
    return [
      { dtype: q.dtype, dims: [q.dims[0]!, q.dims[1]!, cross ? width * num_heads : width] },
      { dtype: q.dtype, dims: [q.dims[0]!, num_heads, total, cross ? k.dims[3]! : size(k.dims[2]!)] },
      { dtype: q.dtype, dims: [q.dims[0]!, num_heads, total, cross ? width : size(width)] },
    ].slice(0, outputs);
  },
  reference: ({ q, k, v, bias, mask, scores, pastKey, pastValue }, { num_heads, scale, unidirectional, mask_filter_value }, types) => {
    const width = q.dims[2]!;
    const [query, key, value] = [
      parted(q, num_heads, bias),
      k.dims.length === 4 ? k : parted(k, num_heads, bias, width),
      v.dims.length === 4 ? v : parted(v, num_heads, bias, 2 * width),
    ];
    const total = key.dims[2]! + (pastKey?.dims[2] ?? 0);
    const added = addedTo({ mask, bias: scores, filter: mask_filter_value }, [q.dims[0]!, num_heads, q.dims[1]!, total]);
    const past = pastKey && pastValue ? { pastKey, pastValue } : {};
    const [y, ...rest] = attend(
      { q: query, k: key, v: value, ...(added ? { mask: added } : {}), ...past },
      { is_causal: unidirectional, scale: scaleOf(scale) },
    );
    return [joined(y!), ...rest].slice(0, types.length).map(asType(types));
  },
  expand: (g, { q, k, v, bias, mask, scores, pastKey, pastValue }, { num_heads, scale, unidirectional, mask_filter_value }) => {
    const width = q.dims![2] as number;
    const heads = (of: Value, from: number): Value => {
      if (of.dims!.length === 4) return of;
      const [batch, length, own] = of.dims as [number, number, number];
      const shifted = bias ? g.call("Add", [of, g.slice(bias, 0, from, from + own)]) : of;
      return g.transpose(g.reshape(shifted, [batch, length, num_heads, own / num_heads]), [0, 2, 1, 3]);
    };
    const [query, key, value] = [heads(q, 0), heads(k, width), heads(v, 2 * width)];
    const total = Number(key.dims![2]) + Number(pastKey?.dims?.[2] ?? 0);
    const added = sumOf(g, [mask && hiding(g, mask, q.dims![0] as number, total, mask_filter_value), scores && g.cast(scores, "float32")]);
    return attended(g, [query, key, value, added, pastKey, pastValue], { is_causal: unidirectional, scale: scaleOf(scale) });
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "a bias, a mask of keys",
      {
        q: noise([2, 3, 8]),
        k: noise([2, 4, 8], 2),
        v: noise([2, 4, 8], 3),
        bias: fixed(noise([24], 4)),
        mask: values("int32", [2, 4], [1, 1, 0, 1, 1, 0, 0, 1]),
      },
      { attributes: { num_heads: 2 } },
    ),
    sample(
      "past, causal",
      { q: noise([1, 2, 6]), k: noise([1, 2, 6], 2), v: noise([1, 2, 6], 3), pastKey: noise([1, 3, 2, 2], 4), pastValue: noise([1, 3, 2, 2], 5) },
      { attributes: { num_heads: 3, unidirectional: 1, scale: 0.5 }, outputs: 3, floats: ["scale"] },
    ),
    sample(
      "keys of another sequence",
      { q: noise([1, 2, 6]), k: noise([1, 2, 4, 3], 2), v: noise([1, 2, 4, 3], 3) },
      { attributes: { num_heads: 2 } },
    ),
    rejects("packed", { q: noise([1, 2, 6]), k: noise([1, 2, 2, 2, 3], 2), v: noise([1, 2, 6]) }, 100021, /packed forms/, {
      attributes: { num_heads: 2 },
    }),
  ],
});
