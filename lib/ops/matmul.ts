/** Matrix products. Constant right-hand sides are packed once, when the model is compiled. */
import { AclError } from "../errors/acl-error";
import { broadcast, type Dim, formatDims, shapeError } from "../graph/dims";
import { elements, isFloat, rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { Strip, View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { defineOp, float, int, type Tolerance } from "./define";
import type { Lowering, Operand } from "./lowering";
import { packedMatrix } from "./packing";
import { fixed, noise, ramp, rejects, sample, values } from "./sample";
import { StripBuilder } from "./strip-builder";
import { broadcastView, permuteView } from "./views";

const SUMMED: Tolerance = { relative: 1e-5, absolute: 2e-5, why: "f32 sums over k against float64" };

/** a[..., m, k] x b[..., k, n] in float64 (integers: exact, then wrapped). Operands of rank >= 2. */
export function multiply(a: Tensor, b: Tensor, dtype = a.dtype): Tensor {
  const batch = broadcast([a.dims.slice(0, -2), b.dims.slice(0, -2)], "MatMul") as number[];
  const [m, k] = a.dims.slice(-2) as [number, number];
  const n = b.dims[b.dims.length - 1]!;
  const data = elements(dtype, sizeOf([...batch, m, n]));
  const starts = (of: Tensor): number[] => {
    const lead = of.dims.slice(0, -2);
    const strides = rowMajor(of.dims);
    const found: number[] = [];
    walk(
      batch,
      batch.map((_, i) =>
        i < batch.length - lead.length || lead[i - batch.length + lead.length] === 1 ? 0 : strides[i - batch.length + lead.length]!,
      ),
      (_, offset) => found.push(offset),
    );
    return found;
  };
  const [fromA, fromB] = [starts(a), starts(b)];
  for (let batchIndex = 0; batchIndex < fromA.length; batchIndex++) {
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        const at = (batchIndex * m + row) * n + column;
        const [left, right] = [fromA[batchIndex]! + row * k, fromB[batchIndex]! + column];
        if (data instanceof Float64Array) {
          let total = 0;
          for (let i = 0; i < k; i++) {
            total += (a.data[left + i] as number) * (b.data[right + i * n] as number);
          }
          data[at] = total;
        } else {
          let total = 0n;
          for (let i = 0; i < k; i++) {
            total += BigInt(a.data[left + i]!) * BigInt(b.data[right + i * n]!);
          }
          data[at] = total;
        }
      }
    }
  }
  return { dtype, dims: [...batch, m, n], data };
}

/** target = a x b for views of rank >= 2 that are broadcast to the same batch. Takes the packed path when `b` is a constant matrix. */
function lowerProduct(b: Lowering, target: View, a: View, right: View, weights: Operand | undefined, transposed: boolean, epilogue?: Strip): void {
  if (target.dtype === "float32") {
    const left = b.arranged(a);
    const packed = weights && right.dims.length === 2 ? packedMatrix(b, weights, transposed) : undefined;
    const batch = target.dims.slice(0, -2);
    if (packed) {
      b.matmul(target, left, packed, true, epilogue);
    } else {
      const plain = b.arranged(right);
      b.matmul(
        target,
        broadcastView(left, [...batch, ...left.dims.slice(-2)]),
        broadcastView(plain, [...batch, ...plain.dims.slice(-2)]),
        false,
        epilogue,
      );
    }
    return;
  }
  lowerByFold(b, target, a, right);
}

/** Types without a matrix kernel: one product per (m, n, k), folded over k. Right for small matrices, slow for large ones. */
function lowerByFold(b: Lowering, target: View, a: View, right: View): void {
  const [m, k] = a.dims.slice(-2) as [number, number];
  const n = right.dims[right.dims.length - 1]!;
  const batch = target.dims.slice(0, -2);
  const cube = [...batch, m, n, k];
  const wide = (view: View, axis: number): View =>
    broadcastView({ ...view, dims: view.dims.toSpliced(axis, 0, 1), strides: view.strides.toSpliced(axis, 0, 0) }, cube);
  const rank = right.dims.length;
  const turned = permuteView(right, [...Array.from({ length: rank - 2 }, (_, i) => i), rank - 1, rank - 2]);
  const products = b.temporary(target.dtype, cube);
  b.map(products, [wide(a, a.dims.length - 1), wide(turned, rank - 2)], (s, x, y) => s.op("mul", x, y));
  b.reduce("sum", target, products, [cube.length - 1]);
}

export const MatMul = defineOp({
  names: { onnx: ["MatMul", 13] },
  inputs: ["a", "b"],
  infer: ({ a, b }, _, { node }) => {
    requireDtype(a.dtype, "number", node);
    if (a.dtype !== b.dtype) {
      throw new AclError(100026, `${node} mixes ${a.dtype} and ${b.dtype}; operands need one element type: insert a Cast`);
    }
    if (a.dims.length === 0 || b.dims.length === 0) {
      throw shapeError(`${node}: a scalar is no matrix; multiply with Mul`);
    }
    const [inner, outer] = [a.dims[a.dims.length - 1]!, b.dims[Math.max(0, b.dims.length - 2)]!];
    if (typeof inner === "number" && typeof outer === "number" && inner !== outer) {
      throw shapeError(`${node}: ${formatDims(a.dims)} x ${formatDims(b.dims)} do not fit (${inner} columns against ${outer} rows)`);
    }
    const dims: Dim[] = broadcast([a.dims.slice(0, -2), b.dims.slice(0, -2)], node);
    return [
      {
        dtype: a.dtype,
        dims: [...dims, ...(a.dims.length > 1 ? [a.dims[a.dims.length - 2]!] : []), ...(b.dims.length > 1 ? [b.dims[b.dims.length - 1]!] : [])],
      },
    ];
  },
  reference: ({ a, b }, _, [out]) => {
    const left = a.dims.length === 1 ? { ...a, dims: [1, a.dims[0]!] } : a;
    const right = b.dims.length === 1 ? { ...b, dims: [b.dims[0]!, 1] } : b;
    const wide = isFloat(out!.dtype) ? "float64" : out!.dtype;
    return [mapTensors({ real: (x) => x, whole: (x) => x }, [{ ...multiply(left, right, wide), dims: out!.dims }], out!)];
  },
  lower: (b, { a, b: right }) => {
    const target = b.target();
    const [rowVector, columnVector] = [a.dims.length === 1, right.dims.length === 1];
    const matrix = (view: View, axis: number): View => ({
      ...view,
      dims: view.dims.toSpliced(axis, 0, 1),
      strides: view.strides.toSpliced(axis, 0, 0),
    });
    const left = rowVector ? matrix(a.view, 0) : a.view;
    let out = target;
    if (columnVector) {
      out = matrix(out, out.dims.length);
    }
    if (rowVector) {
      out = matrix(out, out.dims.length - 1);
    }
    const constant = right.stored && !columnVector ? right : undefined;
    lowerProduct(b, out, left, columnVector ? matrix(right.view, 1) : right.view, constant, false);
  },
  tolerance: SUMMED,
  samples: [
    sample("3x4 by 4x5", { a: ramp([3, 4]), b: noise([4, 5]) }),
    sample("weights packed", { a: noise([7, 33]), b: fixed(noise([33, 19], 2)) }),
    sample("batch", { a: noise([2, 3, 4]), b: noise([2, 4, 5], 3) }),
    sample("batch broadcast", { a: noise([2, 1, 3, 4]), b: noise([3, 4, 2], 3) }),
    sample("weights over a batch", { a: noise([2, 3, 4]), b: fixed(noise([4, 5], 3)) }),
    sample("vector by matrix", { a: noise([4]), b: noise([4, 5], 3) }),
    sample("matrix by vector", { a: noise([3, 4]), b: noise([4], 3) }),
    sample("dot product", { a: noise([9]), b: noise([9], 3) }),
    sample("int32", { a: values("int32", [2, 2], [1, -2, 3, 4]), b: values("int32", [2, 2], [5, 6, 7, 8]) }),
    rejects("sizes do not fit", { a: ramp([3, 4]), b: ramp([5, 2]) }, 100021, /4 columns against 5 rows/),
  ],
});

export const Gemm = defineOp({
  names: { onnx: ["Gemm", 13] },
  inputs: ["a", "b", "c?"],
  attributes: { alpha: float(1), beta: float(1), transA: int(0), transB: int(0) },
  upgrades: { 7: (form) => ({ ...form, attributes: new Map([...form.attributes].filter(([name]) => name !== "broadcast")) }) },
  infer: ({ a, b, c }, { transA, transB }, { node }) => {
    requireDtype(a.dtype, "number", node);
    if (a.dims.length !== 2 || b.dims.length !== 2) {
      throw shapeError(`${node}: Gemm takes matrices, not ${formatDims(a.dims)} and ${formatDims(b.dims)}`);
    }
    const [m, k] = transA ? [a.dims[1]!, a.dims[0]!] : [a.dims[0]!, a.dims[1]!];
    const [rows, n] = transB ? [b.dims[1]!, b.dims[0]!] : [b.dims[0]!, b.dims[1]!];
    if (typeof k === "number" && typeof rows === "number" && k !== rows) {
      throw shapeError(`${node}: ${k} columns against ${rows} rows do not fit`);
    }
    if (c && broadcast([[m, n], c.dims], node).length !== 2) {
      throw shapeError(`${node}: bias ${formatDims(c.dims)} does not broadcast to ${formatDims([m, n])}`);
    }
    return [{ dtype: a.dtype, dims: [m, n] }];
  },
  reference: ({ a, b, c }, { alpha, beta, transA, transB }, [out]) => {
    const turn = (of: Tensor): Tensor => {
      const [rows, columns] = of.dims as [number, number];
      const data = elements(of.dtype, of.data.length);
      walk([columns, rows], [1, columns], (index, offset) => (data[index] = of.data[offset]!));
      return { dtype: of.dtype, dims: [columns, rows], data };
    };
    const product = multiply(transA ? turn(a) : a, transB ? turn(b) : b, isFloat(a.dtype) ? "float64" : a.dtype);
    return [mapTensors({ real: (x, bias = 0) => alpha * x + beta * bias, ...(c ? {} : {}) }, [product, ...(c ? [c] : [])], out!)];
  },
  lower: (b, { a, b: right, c }, { alpha, beta, transA, transB }) => {
    const target = b.target();
    const left = transA ? permuteView(a.view, [1, 0]) : a.view;
    const weights = right.stored ? right : undefined;
    const matrix = transB ? permuteView(right.view, [1, 0]) : right.view;
    const scaled = (s: StripBuilder, product: number, bias: number | undefined): number => {
      const one = alpha === 1 ? product : s.op("mul", product, s.constant("f32", alpha));
      return bias === undefined || beta === 0 ? one : s.op("add", one, beta === 1 ? bias : s.op("mul", bias, s.constant("f32", beta)));
    };
    if (target.dtype !== "float32") {
      if (!isFloat(target.dtype) && (alpha !== 1 || beta !== 1)) {
        b.unsupported("integer Gemm with alpha or beta is not supported; use MatMul and Mul");
      }
      const product = b.temporary(target.dtype, target.dims);
      lowerByFold(b, product, left, matrix);
      const type = target.dtype === "float64" ? "f64" : "f32";
      b.map(target, [product, ...(c ? [c] : [])], (s, x, bias) => {
        const one = alpha === 1 ? x! : s.op("mul", x!, s.constant(type, alpha));
        return bias === undefined ? one : s.op("add", one, beta === 1 ? bias : s.op("mul", bias, s.constant(type, beta)));
      });
      return;
    }
    const strip = new StripBuilder(target.dims);
    const accumulator = strip.accumulator();
    const bias = c && beta !== 0 ? strip.input(c.view) : undefined;
    strip.output(target, scaled(strip, accumulator, bias));
    const plain = alpha === 1 && bias === undefined;
    lowerProduct(b, target, left, matrix, weights, transB === 1, plain ? undefined : strip.strip());
  },
  tolerance: SUMMED,
  samples: [
    sample("plain", { a: noise([3, 4]), b: noise([4, 5], 2), c: noise([3, 5], 3) }),
    sample("weights packed, row bias", { a: noise([6, 17]), b: fixed(noise([17, 9], 2)), c: fixed(noise([9], 3)) }),
    sample(
      "transposed, scaled",
      { a: noise([4, 3]), b: fixed(noise([5, 4], 2)), c: noise([3, 1], 3) },
      { attributes: { alpha: 0.5, beta: 0.25, transA: 1, transB: 1 } },
    ),
    sample("no bias", { a: noise([2, 3]), b: noise([3, 2], 2) }),
    rejects("sizes do not fit", { a: ramp([3, 4]), b: ramp([5, 2]) }, 100021, /4 columns against 5 rows/),
    rejects("rank 3", { a: ramp([1, 3, 4]), b: ramp([4, 2]) }, 100021, /takes matrices/),
  ],
});
