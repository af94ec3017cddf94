/** What decoders of large language models are exported with (domain com.microsoft): attention over a past, turned heads, weights of a few bits. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { decode, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { RotaryEmbedding as StandardRotary } from "./attention";
import { CLOSE, CONTRIB } from "./contrib";
import { asType, attend, attended, joined, make, parted, read, scaleOf, sumOf } from "./contrib-attention";
import { defineOp, float, int } from "./define";
import type { Expansion } from "./expansion";
import { multiply } from "./matmul";
import { fixed, noise, rejects, sample, values } from "./sample";

/** `lengths`. Where the run says that there are other than `all` keys, an index lies outside of its data: a fault that names the node. */
function lengthsOf(g: Expansion, lengths: Value, said: Value, all: number): Value {
  const whole = g.cast(lengths, "int32");
  if (said.constant) {
    return whole;
  }
  const differs = g.cast(g.call("Not", [g.call("Equal", [g.cast(said, "int32"), g.scalar(all, "int32")])]), "int32");
  return g.call("Add", [whole, g.call("Gather", [g.constant("int32", [1], [0]), g.reshape(differs, [])])]);
}

export const GroupQueryAttention = defineOp({
  names: { onnx: ["GroupQueryAttention", 1, CONTRIB] },
  inputs: ["q", "k", "v", "pastKey?", "pastValue?", "lengths", "total", "cos?", "sin?", "positions?", "scores?"],
  outputs: 3,
  attributes: {
    ...{ num_heads: int(1), kv_num_heads: int(1), scale: float(0), softcap: float(0), local_window_size: int(-1) },
    ...{ do_rotary: int(0), rotary_interleaved: int(0), smooth_softmax: int(0), qk_output: int(0), k_quant_type: int(), v_quant_type: int() },
  },
  infer: ({ q, k, v, pastKey, total, positions }, { num_heads, kv_num_heads, smooth_softmax }, { node, outputs }) => {
    requireDtype(q.dtype, "float", node);
    const [before, length] = [pastKey?.dims[2] ?? 0, k.dims[1]!];
    if ([q, k, v].some(({ dims }) => dims.length !== 3) || smooth_softmax || positions) {
      throw shapeError(
        `${node}: Q ${formatDims(q.dims)}, K ${formatDims(k.dims)}: separate operands of three dims are supported, without smooth_softmax`,
      );
    }
    if (total.constant && before !== 0 && Number(total.constant.data[0]) !== Number(before) + Number(length)) {
      throw new AclError(100024, `${node}: past and present in one buffer are not supported; pass a past of the keys that there are`);
    }
    const all = typeof before === "number" && typeof length === "number" ? before + length : `${before}+${length}`;
    const size = Number(k.dims[2]) / kv_num_heads;
    const present = { dtype: q.dtype, dims: [q.dims[0]!, kv_num_heads, all, size] };
    return [{ dtype: q.dtype, dims: [q.dims[0]!, q.dims[1]!, num_heads * size] }, present, present].slice(0, outputs);
  },
  reference: ({ q, k, v, pastKey, pastValue, lengths, cos, sin, scores }, given, types) => {
    const [batch, rows] = q.dims as [number, number];
    const before = pastKey?.dims[2] ?? 0;
    const heads = (of: Tensor, count: number, turns: boolean): Tensor => {
      const own = parted(of, count);
      if (!turns || !given.do_rotary || !cos || !sin) return own;
      const positions = make([batch, rows], (_, s) => before + s);
      const attributes = { interleaved: given.rotary_interleaved, num_heads: 0, rotary_embedding_dim: cos.dims[1]! * 2 };
      return StandardRotary.reference({ x: own, cos, sin, positions } as never, attributes as never, [{ dtype: "float64", dims: own.dims }])[0]!;
    };
    const total = before + rows;
    const { local_window_size: near } = given;
    const mask = make([batch, given.num_heads, rows, total], (b, h, r, c) => {
      const seen = c <= Number(lengths.data[b]) && (near < 0 || r + before - c < near);
      return (seen ? 0 : Number.NEGATIVE_INFINITY) + (scores ? read(scores, b, h, r, c) : 0);
    });
    const past = pastKey && pastValue && before > 0 ? { pastKey, pastValue } : {};
    const inputs = {
      q: heads(q, given.num_heads, true),
      k: heads(k, given.kv_num_heads, true),
      v: heads(v, given.kv_num_heads, false),
      mask,
      ...past,
    };
    const [y, ...rest] = attend(inputs, { is_causal: 1, scale: scaleOf(given.scale), softcap: given.softcap });
    return [joined(y!), ...rest].slice(0, types.length).map(asType(types));
  },
  expand: (g, { q, k, v, pastKey, pastValue, lengths, total: said, cos, sin, scores }, given) => {
    const [batch, rows] = q.dims as [number, number];
    const before = Number(pastKey?.dims?.[2] ?? 0);
    const total = before + rows;
    const heads = (of: Value, count: number, turns: boolean): Value => {
      const own = g.transpose(g.reshape(of, [batch, rows, count, (of.dims![2] as number) / count]), [0, 2, 1, 3]);
      if (!turns || !given.do_rotary || !cos || !sin) return own;
      const width = cos.dims![1] as number;
      const cache = (table: Value): Value =>
        g.call("Expand", [g.reshape(g.slice(table, 0, before, total), [1, rows, width]), g.list(batch, rows, width)]);
      return g.call("RotaryEmbedding", [own, cache(cos), cache(sin)], { interleaved: given.rotary_interleaved, rotary_embedding_dim: 2 * width });
    };
    const columns = g.constant(
      "int32",
      [total],
      Array.from({ length: total }, (_, i) => i),
    );
    let seen = g.call("LessOrEqual", [columns, g.reshape(lengthsOf(g, lengths, said, total), [batch, 1, 1, 1])]);
    if (given.local_window_size >= 0) {
      const close = Array.from({ length: rows * total }, (_, i) => Number(Math.floor(i / total) + before - (i % total) < given.local_window_size));
      seen = g.call("And", [seen, g.constant("bool", [rows, total], close)]);
    }
    const hidden = g.call("Where", [seen, g.scalar(0), g.scalar(Number.NEGATIVE_INFINITY)]);
    const mask = sumOf(g, [hidden, scores && g.cast(scores, "float32")])!;
    const past = before > 0 ? [pastKey, pastValue] : [undefined, undefined];
    const operands = [heads(q, given.num_heads, true), heads(k, given.kv_num_heads, true), heads(v, given.kv_num_heads, false)];
    return attended(g, [...operands, mask, ...past], { is_causal: 1, scale: scaleOf(given.scale), softcap: given.softcap });
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "a prompt of two lengths",
      {
        q: noise([2, 3, 16]),
        k: noise([2, 3, 8], 2),
        v: noise([2, 3, 8], 3),
        lengths: values("int32", [2], [2, 1]),
        total: fixed(values("int32", [1], [3])),
      },
      { attributes: { num_heads: 4, kv_num_heads: 2 }, outputs: 3 },
    ),
    sample(
      "one more token, turned, a window",
      {
        ...{
          q: noise([1, 1, 16]),
          k: noise([1, 1, 8], 2),
          v: noise([1, 1, 8], 3),
          pastKey: noise([1, 1, 5, 8], 4),
          pastValue: noise([1, 1, 5, 8], 5),
        },
        ...{ lengths: values("int32", [1], [5]), total: values("int32", [1], [6]), cos: fixed(noise([9, 4], 6)), sin: fixed(noise([9, 4], 7)) },
      },
      { attributes: { num_heads: 2, kv_num_heads: 1, do_rotary: 1, local_window_size: 3 }, outputs: 3 },
    ),
  ],
});

export const RotaryEmbedding = defineOp({
  names: { onnx: ["RotaryEmbedding", 1, CONTRIB] },
  inputs: ["x", "positions", "cos", "sin"],
  attributes: { interleaved: int(0), num_heads: int(0), rotary_embedding_dim: int(0), is_packed_batching: int(0), scale: float(1) },
  infer: ({ x, cos }, { num_heads, rotary_embedding_dim, is_packed_batching }, { node }) => {
    requireDtype(x.dtype, "float", node);
    if (is_packed_batching || (rotary_embedding_dim > 0 && num_heads === 0) || x.dims.length < 3 || cos.dims.length !== 2) {
      throw shapeError(`${node}: data ${formatDims(x.dims)} with a cache ${formatDims(cos.dims)}, or packed batches, are not supported`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, positions, cos, sin }, given, [out]) => {
    const [batch, length] = [x.dims[0]!, x.dims[x.dims.length === 4 ? 2 : 1]!];
    const at = make([batch, length], (b, s) =>
      positions.data.length === 1 ? Number(positions.data[0]) + s : Number(positions.data[b * length + s]),
    );
    const width = cos.dims[1]! * 2;
    const heads = x.dims.length === 4 ? 0 : given.num_heads || x.dims[2]! / width;
    const attributes = { interleaved: given.interleaved, num_heads: heads, rotary_embedding_dim: width };
    return StandardRotary.reference({ x, cos, sin, positions: at } as never, attributes as never, [out!]);
  },
  expand: (g, { x, positions, cos, sin }, given) => {
    const [batch, length] = [x.dims![0], x.dims![x.dims!.length === 4 ? 2 : 1]] as [number, number];
    const one = (positions.dims as number[]).reduce((a, b) => a * b, 1) === 1;
    const steps = g.constant(
      "int64",
      [1, length],
      Array.from({ length }, (_, i) => i),
    );
    const from = one ? g.call("Expand", [g.call("Add", [g.reshape(positions, [1, 1]), steps]), g.list(batch, length)]) : positions;
    const width = (cos.dims![1] as number) * 2;
    const heads = x.dims!.length === 4 ? 0 : given.num_heads || (x.dims![2] as number) / width;
    return [g.call("RotaryEmbedding", [x, cos, sin, from], { interleaved: given.interleaved, num_heads: heads, rotary_embedding_dim: width })];
  },
  tolerance: CLOSE,
  samples: () => [
    sample("from a position on", {
      x: noise([2, 3, 16]),
      positions: values("int64", [1], [2]),
      cos: fixed(noise([9, 4], 2)),
      sin: fixed(noise([9, 4], 3)),
    }),
    sample(
      "positions, pairs",
      { x: noise([1, 2, 3, 8]), positions: values("int64", [1, 3], [4, 0, 8]), cos: fixed(noise([9, 4], 2)), sin: fixed(noise([9, 4], 3)) },
      { attributes: { interleaved: 1 } },
    ),
  ],
});

const BLOCKED = { K: int(), N: int(), bits: int(4), block_size: int(32), accuracy_level: int(0), weight_prepacked: int() } as const;

/** Weights [N, blocks, bytes] of `bits` each as numbers [K, N]. */
function unpacked(
  b: Tensor,
  scales: Tensor,
  zeros: Tensor | undefined,
  { K, N, bits, block_size }: { readonly K: number | undefined; readonly N: number | undefined; readonly bits: number; readonly block_size: number },
): Tensor {
  const [k, n, perByte] = [K!, N!, 8 / bits];
  const blocks = Math.ceil(k / block_size);
  const code = (bytes: Tensor, row: number, at: number): number => {
    const perRow = bytes.data.length / n;
    return (Number(bytes.data[row * perRow + Math.floor(at / perByte)]) >> (bits * (at % perByte))) & (2 ** bits - 1);
  };
  const data = new Float64Array(k * n);
  for (let column = 0; column < n; column++) {
    for (let row = 0; row < k; row++) {
      const block = Math.floor(row / block_size);
      const zero = !zeros ? 2 ** (bits - 1) : zeros.dtype === "uint8" ? code(zeros, column, block) : Number(zeros.data[column * blocks + block]);
      data[row * n + column] = (code(b, column, row) - zero) * Number(scales.data[column * blocks + block]);
    }
  }
  return { dtype: "float32", dims: [k, n], data };
}

export const MatMulNBits = defineOp({
  names: { onnx: ["MatMulNBits", 1, CONTRIB] },
  inputs: ["a", "b", "scales", "zeros?", "order?", "bias?"],
  attributes: BLOCKED,
  needs: ["b", "scales", "zeros"],
  infer: ({ a, order }, { K, N, bits }, { node }) => {
    requireDtype(a.dtype, "float", node);
    if (!K || !N || ![2, 4, 8].includes(bits) || a.dims[a.dims.length - 1] !== K || order) {
      throw shapeError(`${node}: ${formatDims(a.dims)} by ${K} x ${N} weights of ${bits} bits${order ? " in another order" : ""} is not supported`);
    }
    return [{ dtype: a.dtype, dims: [...a.dims.slice(0, -1), N] }];
  },
  reference: ({ a, b, scales, zeros, bias }, given, [out]) => {
    const product = multiply(a, unpacked(b, scales, zeros, given), "float64");
    const n = given.N!;
    return [{ ...out!, data: (product.data as Float64Array).map((v, i) => v + (bias ? Number(bias.data[i % n]) : 0)) }];
  },
  expand: (g, { a, b, scales, zeros, bias }, given) => {
    if (!b.constant || !scales.constant || (zeros && !zeros.constant)) {
      throw new AclError(100024, `${g.what}: weights in bits that are computed at run time are not supported; make them initializers`);
    }
    const weights = unpacked(decode(b.constant), decode(scales.constant), zeros?.constant && decode(zeros.constant), given);
    const product = g.call("MatMul", [g.cast(a, "float32"), g.constant("float32", weights.dims, weights.data as never)]);
    return [g.cast(bias ? g.call("Add", [product, g.cast(bias, "float32")]) : product, a.dtype!)];
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "4 bits, zero points",
      {
        a: noise([2, 3, 24]),
        b: fixed(
          values(
            "uint8",
            [5, 2, 8],
            Array.from({ length: 80 }, (_, i) => (i * 37) % 256),
          ),
        ),
        scales: fixed(noise([10], 2)),
        zeros: fixed(values("uint8", [5], [0x83, 0x17, 0x88, 0x0f, 0xf0])),
        bias: fixed(noise([5], 3)),
      },
      { attributes: { K: 24, N: 5, block_size: 16 } },
    ),
    sample(
      "8 bits",
      {
        a: noise([2, 16]),
        b: fixed(
          values(
            "uint8",
            [3, 1, 16],
            Array.from({ length: 48 }, (_, i) => (i * 91) % 256),
          ),
        ),
        scales: fixed(noise([3], 2)),
      },
      { attributes: { K: 16, N: 3, bits: 8, block_size: 16 } },
    ),
    rejects(
      "no sizes",
      { a: noise([2, 16]), b: fixed(values("uint8", [1, 1, 8], new Array(8).fill(1))), scales: fixed(noise([1])) },
      100021,
      /weights of 4 bits/,
    ),
  ],
});
