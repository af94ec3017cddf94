/** Attention and what goes with it: the form that an instruction takes (scaled-dot-product.ts), or its parts. */
import { type Dim, formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { elements, roundTo, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { asInstruction, biasOf, inParts } from "./attention-forms";
import { type ConcreteType, defineOp, float, int, type Type } from "./define";
import type { Expansion } from "./expansion";
import { fitsAttention } from "./scaled-dot-product";
import { noise, ramp, rejects, sample, values } from "./sample";

interface Heads {
  readonly batch: Dim;
  readonly heads: Dim;
  readonly length: Dim;
  readonly size: Dim;
}

/** [batch, heads, length, size], or [batch, length, heads * size] and the number of heads. */
function headsOf({ dims }: { readonly dims?: readonly Dim[] | undefined }, heads: number | undefined, what: string): Heads {
  const [a = 0, b = 0, c = 0, d = 0] = dims!;
  if (dims!.length === 4) {
    return { batch: a, heads: b, length: c, size: d };
  }
  if (dims!.length !== 3 || !heads || (typeof c === "number" && c % heads !== 0)) {
    throw shapeError(`${what} ${formatDims(dims!)} must be [batch, heads, length, size], or [batch, length, heads * size] with the number of heads`);
  }
  return { batch: a, heads, length: b, size: typeof c === "number" ? c / heads : `${c}/${heads}` };
}

interface AttentionAttributes {
  readonly is_causal: number;
  readonly q_num_heads: number | undefined;
  readonly kv_num_heads: number | undefined;
  readonly scale: number | undefined;
  readonly softcap: number;
  readonly qk_matmul_output_mode: number;
}

const PLAIN: AttentionAttributes = {
  is_causal: 0,
  q_num_heads: undefined,
  kv_num_heads: undefined,
  scale: undefined,
  softcap: 0,
  qk_matmul_output_mode: 0,
};

function attentionShapes(q: Type | Value, k: Type | Value, v: Type | Value, past: Type | Value | undefined, a: AttentionAttributes, node: string) {
  const [query, key, value] = [
    headsOf(q, a.q_num_heads, `${node}: Q`),
    headsOf(k, a.kv_num_heads, `${node}: K`),
    headsOf(v, a.kv_num_heads, `${node}: V`),
  ];
  const groups = Number(query.heads) / Number(key.heads);
  if (query.size !== key.size || key.length !== value.length || !Number.isInteger(groups) || key.heads !== value.heads) {
    throw shapeError(`${node}: Q ${formatDims(q.dims!)}, K ${formatDims(k.dims!)} and V ${formatDims(v.dims!)} do not fit each other`);
  }
  const before = Number(past?.dims?.[2] ?? 0);
  return { query, key, value, groups, before, total: Number(key.length) + before };
}

/** Element `at` of a tensor that broadcasts to `dims`; missing leading dims count as 1. */
function broadcastAt({ dims, data }: Tensor, at: readonly number[]): number {
  let offset = 0;
  dims.forEach((dim, axis) => {
    offset = offset * dim + (dim === 1 ? 0 : at[at.length - dims.length + axis]!);
  });
  return Number(data[offset]);
}

/** One tensor as heads: element (batch, head, position, channel). */
function reader(x: Tensor, { heads, length, size }: Heads) {
  const [h, l, s] = [heads, length, size].map(Number) as [number, number, number];
  return (b: number, head: number, at: number, channel: number): number =>
    x.data[x.dims.length === 4 ? ((b * h + head) * l + at) * s + channel : (b * l + at) * h * s + head * s + channel]! as number;
}

interface AttentionInputs {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly mask?: Tensor;
  readonly pastKey?: Tensor;
  readonly pastValue?: Tensor;
  readonly lengths?: Tensor;
}

function attend(inputs: AttentionInputs, a: AttentionAttributes, types: readonly ConcreteType[]): Tensor[] {
  const { q, k, v, mask, pastKey, pastValue, lengths } = inputs;
  const { query, key, value, groups, before, total } = attentionShapes(q, k, v, pastKey, a, "Attention");
  const [batch, heads, rows, size, wide] = [query.batch, query.heads, query.length, query.size, value.size].map(Number) as number[] as [
    number,
    number,
    number,
    number,
    number,
  ];
  const all = (past: Tensor | undefined, now: Tensor, shape: Heads) => {
    const [old, fresh] = [past && reader(past, { ...shape, length: before }), reader(now, shape)];
    return (b: number, h: number, at: number, c: number): number => (at < before ? old!(b, h, at, c) : fresh(b, h, at - before, c));
  };
  const [readQ, readK, readV] = [reader(q, query), all(pastKey, k, key), all(pastValue, v, value)];
  const scale = a.scale ?? 1 / Math.sqrt(size);
  const out = types.map(({ dtype, dims }) => ({ dtype, dims, data: elements(dtype, sizeOf(dims)) as Float64Array }));
  const put = (index: number, at: number, number: number): void => {
    if (out[index]) {
      out[index].data[at] = roundTo(out[index].dtype, number);
    }
  };
  for (let b = 0; b < batch; b++) {
    const valid = lengths ? Number(lengths.data[b]) : total;
    const offset = lengths ? valid - rows : before;
    for (let h = 0; h < heads; h++) {
      for (let r = 0; r < rows; r++) {
        const stages = Array.from({ length: total }, (_, c) => {
          let dot = 0;
          for (let i = 0; i < size; i++) {
            dot += readQ(b, h, r, i) * readK(b, Math.floor(h / groups), c, i);
          }
          const raw = dot * scale;
          const capped = a.softcap > 0 ? a.softcap * Math.tanh(raw / a.softcap) : raw;
          let bias = c >= valid || (a.is_causal && r + offset < c) ? Number.NEGATIVE_INFINITY : 0;
          if (mask) {
            const inside = c < mask.dims[mask.dims.length - 1]!;
            const given = inside ? broadcastAt(mask, [b, h, r, c]) : 0;
            bias += !inside ? Number.NEGATIVE_INFINITY : mask.dtype === "bool" ? (given ? 0 : Number.NEGATIVE_INFINITY) : given;
          }
          return { raw, capped, biased: capped + bias, bias };
        });
        const masked = stages.every(({ bias }) => bias === Number.NEGATIVE_INFINITY);
        const most = stages.reduce((m, { biased }) => Math.max(m, biased), Number.NEGATIVE_INFINITY);
        const powers = stages.map(({ biased }) => (masked ? 0 : Math.exp(biased - most)));
        const sum = powers.reduce((x, y) => x + y, 0);
        const weights = powers.map((power) => (masked ? 0 : power / sum));
        stages.forEach(({ raw, capped, biased }, c) =>
          put(3, ((b * heads + h) * rows + r) * total + c, [raw, capped, biased, weights[c]!][a.qk_matmul_output_mode]!),
        );
        for (let i = 0; i < wide; i++) {
          const y = weights.reduce((x, weight, c) => x + (weight === 0 ? 0 : weight * readV(b, Math.floor(h / groups), c, i)), 0);
          put(0, q.dims.length === 4 ? ((b * heads + h) * rows + r) * wide + i : ((b * rows + r) * heads + h) * wide + i, y);
        }
      }
    }
    for (let h = 0; h < Number(key.heads); h++) {
      for (let c = 0; c < total; c++) {
        for (let i = 0; i < size; i++) {
          put(1, ((b * Number(key.heads) + h) * total + c) * size + i, readK(b, h, c, i));
        }
        for (let i = 0; i < wide; i++) {
          put(2, ((b * Number(key.heads) + h) * total + c) * wide + i, readV(b, h, c, i));
        }
      }
    }
  }
  return out;
}

const asHeads = (g: Expansion, x: Value, { batch, heads, length, size }: Heads): Value =>
  x.dims!.length === 4 ? x : g.transpose(g.reshape(x, [batch, length, heads, size].map(Number)), [0, 2, 1, 3]);

export const Attention = defineOp({
  names: { onnx: ["Attention", 24] },
  inputs: ["q", "k", "v", "mask?", "pastKey?", "pastValue?", "lengths?"],
  outputs: 4,
  attributes: {
    is_causal: int(0),
    q_num_heads: int(),
    kv_num_heads: int(),
    scale: float(),
    softcap: float(0),
    qk_matmul_output_mode: int(0),
    softmax_precision: int(0),
  },
  infer: ({ q, k, v, pastKey, pastValue }, attributes, { node }) => {
    requireDtype(q.dtype, "float", node);
    const { query, key, value, total } = attentionShapes(q, k, v, pastKey, attributes, node);
    if ((pastKey === undefined) !== (pastValue === undefined)) {
      throw shapeError(`${node}: past_key and past_value come together`);
    }
    const width = typeof value.size === "number" && typeof query.heads === "number" ? value.size * query.heads : `${query.heads}*${value.size}`;
    return [
      { dtype: q.dtype, dims: q.dims.length === 4 ? [query.batch, query.heads, query.length, value.size] : [query.batch, query.length, width] },
      { dtype: k.dtype, dims: [key.batch, key.heads, total, key.size] },
      { dtype: v.dtype, dims: [value.batch, value.heads, total, value.size] },
      { dtype: q.dtype, dims: [query.batch, query.heads, query.length, total] },
    ];
  },
  reference: (inputs, attributes, types) => attend(inputs, attributes, types),
  expand: (g, { q, k, v, mask, pastKey, pastValue, lengths }, attributes) => {
    const { query, key, value, groups, before, total } = attentionShapes(q, k, v, pastKey, attributes, g.what);
    const [batch, heads, rows, size] = [query.batch, query.heads, query.length, query.size].map(Number) as [number, number, number, number];
    const [ownKey, ownValue] = [asHeads(g, k, key), asHeads(g, v, value)];
    const presentKey = pastKey ? g.call("Concat", [pastKey, ownKey], { axis: 2 }) : ownKey;
    const presentValue = pastValue ? g.call("Concat", [pastValue, ownValue], { axis: 2 }) : ownValue;
    const [readyQ, readyK, readyV] = [asHeads(g, q, query), presentKey, presentValue].map((each) => g.cast(each, "float32")) as [Value, Value, Value];
    const given = { ...attributes, scale: attributes.scale ?? 1 / Math.sqrt(size) };
    const causal = attributes.is_causal !== 0;
    const whole = given.softcap === 0 && !g.has(3) && fitsAttention(readyQ.dims!, readyK.dims!, readyV.dims!);
    // Without lengths the instruction knows which keys come later.
    const bias = biasOf(g, mask, lengths, causal && !(whole && !lengths), rows, before, total);
    const form = { scale: given.scale, causal: Number(causal && !lengths), offset: before, zeros: 1 };
    const { mixed, shown } = whole
      ? { mixed: asInstruction(g, [readyQ, readyK, readyV, bias], groups, form), shown: undefined }
      : inParts(g, [readyQ, readyK, readyV, bias], groups, given, mask !== undefined || lengths !== undefined);
    const y = q.dims!.length === 4 ? mixed : g.reshape(g.transpose(mixed, [0, 2, 1, 3]), [batch, rows, heads * Number(value.size)]);
    return [g.cast(y, q.dtype!), g.has(1) ? presentKey : undefined, g.has(2) ? presentValue : undefined, shown && g.cast(shown, q.dtype!)];
  },
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "f32 sums and exponentials" },
  samples: () => [
    sample("four dims, causal", { q: noise([1, 2, 3, 4]), k: noise([1, 2, 3, 4], 2), v: noise([1, 2, 3, 5], 3) }, { attributes: { is_causal: 1 } }),
    sample(
      "groups, past, mask, scores",
      {
        q: noise([2, 3, 16]),
        k: noise([2, 2, 8], 2),
        v: noise([2, 2, 8], 3),
        mask: noise([3, 5], 4),
        pastKey: noise([2, 2, 3, 4], 5),
        pastValue: noise([2, 2, 3, 4], 6),
      },
      { attributes: { q_num_heads: 4, kv_num_heads: 2, softcap: 2, qk_matmul_output_mode: 2 }, floats: ["softcap"], outputs: 4 },
    ),
    sample("a row that sees nothing, a short mask", {
      q: noise([1, 1, 2, 4]),
      k: noise([1, 1, 4, 4], 2),
      v: noise([1, 1, 4, 4], 3),
      mask: values("bool", [2, 3], [0, 0, 0, 1, 0, 1]),
    }),
    sample(
      "lengths",
      { q: noise([2, 1, 2, 4]), k: noise([2, 1, 4, 4], 2), v: noise([2, 1, 4, 4], 3), lengths: values("int64", [2], [4, 3]) },
      { attributes: { is_causal: 1 } },
    ),
    rejects("heads that do not fit", { q: noise([1, 3, 2, 4]), k: noise([1, 2, 2, 4]), v: noise([1, 2, 2, 4]) }, 100021, /do not fit each other/),
  ],
});

/** Attention whose scores a graph may change; without such a graph it is plain attention. */
export const FlexAttention = defineOp({
  names: { onnx: ["FlexAttention", 1, "ai.onnx.preview"] },
  inputs: ["q", "k", "v"],
  attributes: { scale: float(), softmax_precision: int(0) },
  infer: ({ q, k, v }, { scale }, context) => [Attention.infer({ q, k, v } as never, { ...PLAIN, scale } as never, context)[0]!],
  reference: ({ q, k, v }, { scale }, [out]) => attend({ q, k, v }, { ...PLAIN, scale }, [out!]),
  expand: (g, { q, k, v }, { scale }) => [g.call("Attention", [q, k, v], { scale })],
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "f32 sums and exponentials" },
  samples: () => [
    sample("groups", { q: noise([1, 4, 3, 8]), k: noise([1, 2, 5, 8], 2), v: noise([1, 2, 5, 6], 3) }),
    sample("a scale", { q: noise([1, 1, 2, 4]), k: noise([1, 1, 3, 4], 2), v: noise([1, 1, 3, 4], 3) }, { attributes: { scale: 0.1 } }),
    rejects("heads that do not fit", { q: noise([1, 3, 2, 4]), k: noise([1, 2, 2, 4]), v: noise([1, 2, 2, 4]) }, 100021, /do not fit each other/),
  ],
});

/** Positions of the two halves of a pair in a head. */
const pairOf = (interleaved: number, half: number, i: number): [number, number] => (interleaved ? [2 * i, 2 * i + 1] : [i, i + half]);

export const RotaryEmbedding = defineOp({
  names: { onnx: ["RotaryEmbedding", 23] },
  inputs: ["x", "cos", "sin", "positions?"],
  attributes: { interleaved: int(0), num_heads: int(0), rotary_embedding_dim: int(0) },
  infer: ({ x, cos, positions }, { num_heads }, { node }) => {
    requireDtype(x.dtype, "float", node);
    headsOf(x, num_heads, `${node}: its input`);
    if (cos.dims.length !== (positions ? 2 : 3)) {
      throw shapeError(`${node}: the cache ${formatDims(cos.dims)} must have two dims with position_ids, three without`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, cos, sin, positions }, { interleaved, num_heads, rotary_embedding_dim }, [out]) => {
    const shape = headsOf(x, num_heads, "RotaryEmbedding");
    const [batch, heads, length, size] = [shape.batch, shape.heads, shape.length, shape.size].map(Number) as [number, number, number, number];
    const half = (rotary_embedding_dim || size) / 2;
    const data = elements(x.dtype, x.data.length) as Float64Array;
    data.set(x.data as Float64Array);
    for (let b = 0; b < batch; b++) {
      for (let s = 0; s < length; s++) {
        const row = positions ? Number(positions.data[b * length + s]) : b * length + s;
        for (let h = 0; h < heads; h++) {
          const start = x.dims.length === 4 ? ((b * heads + h) * length + s) * size : ((b * length + s) * heads + h) * size;
          for (let i = 0; i < half; i++) {
            const [first, second] = pairOf(interleaved, half, i).map((at) => start + at) as [number, number];
            const [p, r] = [x.data[first] as number, x.data[second] as number];
            const [c, d] = [cos.data[row * half + i] as number, sin.data[row * half + i] as number];
            data[first] = roundTo(x.dtype, p * c - r * d);
            data[second] = roundTo(x.dtype, p * d + r * c);
          }
        }
      }
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, cos, sin, positions }, { interleaved, num_heads, rotary_embedding_dim }) => {
    const shape = headsOf(x, num_heads, g.what);
    const [batch, heads, length, size] = [shape.batch, shape.heads, shape.length, shape.size].map(Number) as [number, number, number, number];
    const width = rotary_embedding_dim || size;
    const parted = x.dims!.length === 4 ? x : g.reshape(x, [batch, length, heads, size]);
    const cache = (table: Value): Value => {
      const rows = positions ? g.call("Gather", [table, positions]) : table;
      return g.reshape(rows, x.dims!.length === 4 ? [batch, 1, length, width / 2] : [batch, length, 1, width / 2]);
    };
    const [c, d] = [cache(cos), cache(sin)];
    const [p, r] = interleaved
      ? [g.slice(parted, 3, 0, width, 2), g.slice(parted, 3, 1, width, 2)]
      : [g.slice(parted, 3, 0, width / 2), g.slice(parted, 3, width / 2, width)];
    const turned = [g.call("Sub", [g.call("Mul", [p, c]), g.call("Mul", [r, d])]), g.call("Add", [g.call("Mul", [p, d]), g.call("Mul", [r, c])])];
    const outer = parted.dims!.slice(0, 3) as number[];
    const rest = width < size ? [g.slice(parted, 3, width, size)] : [];
    const pairs = interleaved
      ? [
          g.reshape(
            g.call(
              "Concat",
              turned.map((each) => g.reshape(each, [...outer, width / 2, 1])),
              { axis: 4 },
            ),
            [...outer, width],
          ),
        ]
      : turned;
    return [g.reshape(g.call("Concat", [...pairs, ...rest], { axis: 3 }), x.dims as number[])];
  },
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "two products" },
  samples: () => [
    sample("halves", { x: noise([2, 2, 3, 8]), cos: noise([2, 3, 4], 2), sin: noise([2, 3, 4], 3) }),
    sample(
      "pairs in part of the head, by position",
      { x: noise([1, 3, 16]), cos: noise([9, 2], 2), sin: noise([9, 2], 3), positions: values("int64", [1, 3], [4, 0, 8]) },
      { attributes: { interleaved: 1, num_heads: 2, rotary_embedding_dim: 4 } },
    ),
    rejects("a cache without positions", { x: noise([1, 2, 3, 8]), cos: ramp([9, 4]), sin: ramp([9, 4]) }, 100021, /two dims/),
  ],
});
