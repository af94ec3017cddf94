/** Attention's core as one operator of our own: what the standard's operators expand to, and what a pattern of the compiler finds in parts. */
import { ATTENTION_WIDTH } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { broadcast, type Dim, formatDims, shapeError } from "../graph/dims";
import { sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { mapTensors } from "./arithmetic";
import { defineOp, float, int } from "./define";
import type { Operand } from "./lowering";
import { multiply } from "./matmul";
import { noise, rejects, sample, values } from "./sample";
import { broadcastView } from "./views";

/** The domain of operators that no model names. */
export const OWN = "npurt";

/** Heads that the instruction takes: float32 matrices of known size, with a key at least. */
export function fitsAttention(q: readonly Dim[], k: readonly Dim[], v: readonly Dim[]): boolean {
  const [depth, keys, wide] = [q[q.length - 1], k[k.length - 2], v[v.length - 1]];
  const within = (dim: Dim | undefined): boolean => typeof dim === "number" && dim > 0 && dim <= ATTENTION_WIDTH;
  return [q, k, v].every((dims) => dims.length >= 2 && dims.every((dim) => typeof dim === "number")) && within(depth) && within(wide) && keys !== 0;
}

/** Dims of the scores and of the result. */
function attentionDims(q: readonly Dim[], k: readonly Dim[], v: readonly Dim[], mask: readonly Dim[] | undefined, node: string) {
  const fits = fitsAttention(q, k, v) && q.at(-1) === k.at(-1) && k.at(-2) === v.at(-2);
  if (!fits) {
    throw shapeError(`${node}: Q ${formatDims(q)}, K ${formatDims(k)} and V ${formatDims(v)} do not fit each other`);
  }
  const batch = broadcast([q.slice(0, -2), k.slice(0, -2), v.slice(0, -2)], node) as number[];
  const scores = [...batch, q.at(-2) as number, k.at(-2) as number];
  if (mask && broadcast([mask, scores], node).join() !== scores.join()) {
    throw shapeError(`${node}: the mask ${formatDims(mask)} does not fit scores ${formatDims(scores)}`);
  }
  return { batch, scores, target: [...batch, q.at(-2) as number, v.at(-1) as number] };
}

const turned = (x: Tensor): Tensor => {
  const [rows, columns] = x.dims.slice(-2) as [number, number];
  const data = new Float64Array(x.data.length);
  data.forEach((_, i) => {
    const [matrix, at] = [Math.floor(i / (rows * columns)), i % (rows * columns)];
    data[matrix * rows * columns + (at % columns) * rows + Math.floor(at / columns)] = Number(x.data[i]);
  });
  return { dtype: "float64", dims: [...x.dims.slice(0, -2), columns, rows], data };
};

/** softmax(Q K^T scale + mask) V over the last two dims; those before broadcast. With `causal` row r sees keys up to r + offset. */
export const ScaledDotProduct = defineOp({
  names: { onnx: ["ScaledDotProduct", 1, OWN] },
  inputs: ["q", "k", "v", "mask?"],
  layout: "turned",
  attributes: { scale: float(1), causal: int(0), offset: int(0), zeros: int(0) },
  infer: ({ q, k, v, mask }, _, { node }) => {
    if ([q, k, v, ...(mask ? [mask] : [])].some(({ dtype }) => dtype !== "float32")) {
      throw new AclError(100026, `${node} takes float32 only: cast first`);
    }
    return [{ dtype: "float32", dims: attentionDims(q.dims, k.dims, v.dims, mask?.dims, node).target }];
  },
  reference: ({ q, k, v, mask }, { scale, causal, offset, zeros }, [out]) => {
    const { scores: dims } = attentionDims(q.dims, k.dims, v.dims, mask?.dims, "ScaledDotProduct");
    const product = multiply(q, turned(k), "float64");
    const wide = { dtype: "float64" as const, dims };
    const scores = mapTensors({ real: (s, m = 0) => s! * scale + m }, [product, ...(mask ? [mask] : [])], wide);
    const [rows, keys] = dims.slice(-2) as [number, number];
    const weights = scores.data as Float64Array;
    for (let start = 0; start < weights.length; start += keys) {
      const row = weights.subarray(start, start + keys);
      const seen = causal ? Math.max(0, ((start / keys) % rows) + offset + 1) : keys;
      row.fill(Number.NEGATIVE_INFINITY, Math.min(seen, keys));
      const most = row.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
      row.forEach((x, i) => {
        row[i] = Math.exp(x - most);
      });
      const sum = row.reduce((a, b) => a + b, 0);
      row.forEach((x, i) => {
        row[i] = zeros && most === Number.NEGATIVE_INFINITY ? 0 : x / sum;
      });
    }
    return [mapTensors({ real: (x) => x! }, [multiply(scores, v, "float64")], out!)];
  },
  lower: (b, { q, k, v, mask }, { scale, causal, offset, zeros }) => {
    const { batch, scores } = attentionDims(q.dims, k.dims, v.dims, mask?.dims, b.what);
    // Packing reads lines: rows or columns that are dense.
    const lines = (view: View): View => (view.strides.slice(-2).includes(4) ? view : b.arranged(view));
    const spread = (of: Operand): View => broadcastView(lines(of.view), [...batch, ...of.dims.slice(-2)]);
    const operands = { q: spread(q), k: spread(k), v: spread(v), ...(mask ? { mask: broadcastView(mask.view, scores) } : {}) };
    const target = b.target();
    b.emit({ op: "attention", target, ...operands, scale, ...(causal ? { causal: offset } : {}), zeros: zeros !== 0 }, sizeOf(target.dims));
  },
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "f32 sums and exponentials" },
  samples: () => [
    sample("one head, a row", { q: noise([1, 3]), k: noise([1, 3], 2), v: noise([1, 5], 3) }),
    sample(
      "odd sizes, a mask of keys",
      { q: noise([2, 3, 7, 5]), k: noise([2, 3, 9, 5], 2), v: noise([2, 3, 9, 1], 3), mask: noise([2, 1, 1, 9], 4) },
      { attributes: { scale: 0.5 } },
    ),
    sample("shared keys", { q: noise([2, 2, 3, 4, 6]), k: noise([2, 1, 1, 5, 6], 2), v: noise([2, 1, 5, 3], 3), mask: noise([4, 5], 4) }),
    sample(
      "hidden keys and rows",
      {
        q: noise([2, 3, 4]),
        k: noise([2, 5, 4], 2),
        v: noise([2, 5, 4], 3),
        mask: values(
          "float32",
          [3, 5],
          [0, 0, Number.NEGATIVE_INFINITY, 0, 0, ...new Array<number>(5).fill(Number.NEGATIVE_INFINITY), 1, 2, 3, 4, 5],
        ),
      },
      { attributes: { zeros: 1 } },
    ),
    sample("causal", { q: noise([2, 70, 8]), k: noise([2, 72, 8], 2), v: noise([2, 72, 8], 3) }, { attributes: { causal: 1, offset: 2 } }),
    sample(
      "causal, rows that see nothing",
      { q: noise([5, 4]), k: noise([3, 4], 2), v: noise([3, 4], 3) },
      { attributes: { causal: 1, offset: -2, zeros: 1 } },
    ),
    sample(
      "keys in blocks",
      { q: noise([2, 3, 16]), k: noise([2, 700, 16], 2), v: noise([2, 700, 20], 3), mask: noise([2, 3, 700], 4) },
      { attributes: { scale: 3 }, floats: ["scale"] },
    ),
    rejects("sizes that do not fit", { q: noise([3, 4]), k: noise([3, 5]), v: noise([3, 4]) }, 100021, /do not fit each other/),
  ],
});
