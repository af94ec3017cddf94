/** Matrix products. Constant right-hand sides are packed once, when the model is compiled. */
import { AclError } from "../errors/acl-error";
import { broadcast, type Dim, formatDims, shapeError } from "../graph/dims";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { elements, isFloat, rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { Strip, View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { defineOp, float, int, type Tolerance } from "./define";
import type { Lowering } from "./lowering";
import { packedMatrix } from "./packing";
import { fixed, noise, ramp, rejects, sample, values } from "./sample";
import { StripBuilder, stripType } from "./strip-builder";
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

/** What the kernel multiplies; other floats are widened to float32, which holds them exactly. */
const NATIVE: ReadonlySet<DtypeName> = new Set(["float32", "float64", "int32", "uint32", "int64", "uint64"]);

/** The kernel reads rows and columns in any order that is dense along one of them: a turned matrix is not copied. */
function operandOf(b: Lowering, view: View): View {
  const size = DTYPES[view.dtype].bytes;
  const inner = view.strides.slice(-2);
  return inner.every((stride) => stride >= 0) && inner.some((stride) => stride === size) ? view : b.arranged(view);
}

/**
 * target = a x right for views of rank >= 2 that broadcast to one batch. `packed` is a constant float32 matrix: then `right` is never asked for, and
 * its unpacked bytes never reach the device.
 */
function lowerProduct(b: Lowering, target: View, a: View, right: () => View, packed: View | undefined, epilogue?: Strip): void {
  const batch = target.dims.slice(0, -2);
  const spread = (view: View): View => broadcastView(view, [...batch, ...view.dims.slice(-2)]);
  const left = spread(operandOf(b, a));
  if (packed) {
    b.matmul(target, left, packed, true, epilogue);
  } else {
    b.matmul(target, left, spread(operandOf(b, right())), false, epilogue);
  }
}

/** The type in which a product is computed. */
function productType(b: Lowering, dtype: DtypeName): DtypeName {
  if (NATIVE.has(dtype)) {
    return dtype;
  }
  return isFloat(dtype) ? "float32" : b.unsupported(`products of ${dtype} are not supported; cast to int32 first`);
}

export const MatMul = defineOp({
  names: { onnx: ["MatMul", 13] },
  inputs: ["a", "b"],
  layout: "turned",
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
    const type = productType(b, a.dtype);
    const [rowVector, columnVector] = [a.dims.length === 1, right.dims.length === 1];
    const matrix = (view: View, axis: number): View => ({
      ...view,
      dims: view.dims.toSpliced(axis, 0, 1),
      strides: view.strides.toSpliced(axis, 0, 0),
    });
    const left = b.converted(a.view, type);
    const packed = right.stored && type === "float32" && right.dims.length === 2 ? packedMatrix(b, right, false) : undefined;
    const other = (): View => {
      const view = b.converted(right.view, type);
      return columnVector ? matrix(view, 1) : view;
    };
    b.through(type, b.node.outputs[0]!.layout, (target) => {
      let out = columnVector ? matrix(target, target.dims.length) : target;
      if (rowVector) {
        out = matrix(out, out.dims.length - 1);
      }
      lowerProduct(b, out, rowVector ? matrix(left, 0) : left, other, packed);
    });
  },
  tolerance: SUMMED,
  samples: () => [
    sample("3x4 by 4x5", { a: ramp([3, 4]), b: noise([4, 5]) }),
    sample("weights packed", { a: noise([7, 33]), b: fixed(noise([33, 19], 2)) }),
    sample("batch", { a: noise([2, 3, 4]), b: noise([2, 4, 5], 3) }),
    sample("batch broadcast", { a: noise([2, 1, 3, 4]), b: noise([3, 4, 2], 3) }),
    sample("weights over a batch", { a: noise([2, 3, 4]), b: fixed(noise([4, 5], 3)) }),
    sample("vector by matrix", { a: noise([4]), b: noise([4, 5], 3) }),
    sample("matrix by vector", { a: noise([3, 4]), b: noise([4], 3) }),
    sample("dot product", { a: noise([9]), b: noise([9], 3) }),
    sample("float16", { a: ramp([3, 5], 0.25, "float16"), b: ramp([5, 4], 0.5, "float16") }),
    sample("float64", { a: ramp([3, 5], 0.1, "float64"), b: ramp([5, 4], 0.1, "float64") }),
    sample("int64", { a: values("int64", [1, 2], [4294967296n, 3n]), b: values("int64", [2, 1], [4294967296n, 5n]) }),
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
    return [mapTensors({ real: (x, bias = 0) => alpha * x + beta * bias }, [product, ...(c ? [c] : [])], out!)];
  },
  lower: (b, { a, b: right, c }, { alpha, beta, transA, transB }) => {
    const type = productType(b, a.dtype);
    if (!isFloat(type) && (!Number.isInteger(alpha) || !Number.isInteger(beta))) {
      b.unsupported("an integer Gemm needs whole numbers for alpha and beta; use MatMul, Cast and Mul");
    }
    const turned = (view: View, turn: number): View => (turn ? permuteView(view, [1, 0]) : view);
    const left = turned(b.converted(a.view, type), transA);
    const packed = right.stored && type === "float32" ? packedMatrix(b, right, transB === 1) : undefined;
    const other = (): View => turned(b.converted(right.view, type), transB);
    b.through(type, undefined, (target) => {
      const s = new StripBuilder(target.dims);
      const register = stripType(type);
      const scaled = (value: number, by: number): number => (by === 1 ? value : s.op("mul", value, s.constant(register, by)));
      const product = scaled(s.accumulator(register), alpha);
      const bias = c && beta !== 0 ? scaled(s.input(b.converted(c.view, type)), beta) : undefined;
      s.output(target, bias === undefined ? product : s.op("add", product, bias));
      const plain = alpha === 1 && bias === undefined;
      lowerProduct(b, target, left, other, packed, plain ? undefined : s.strip());
    });
  },
  tolerance: SUMMED,
  samples: () => [
    sample("plain", { a: noise([3, 4]), b: noise([4, 5], 2), c: noise([3, 5], 3) }),
    sample("weights packed, row bias", { a: noise([6, 17]), b: fixed(noise([17, 9], 2)), c: fixed(noise([9], 3)) }),
    sample(
      "transposed, scaled",
      { a: noise([4, 3]), b: fixed(noise([5, 4], 2)), c: noise([3, 1], 3) },
      { attributes: { alpha: 0.5, beta: 0.25, transA: 1, transB: 1 } },
    ),
    sample(
      "int32",
      { a: values("int32", [1, 2], [3, -4]), b: values("int32", [2, 2], [1, 2, 3, 4]), c: values("int32", [2], [10, 20]) },
      { attributes: { beta: 2 }, floats: ["beta"] },
    ),
    sample("float16", { a: ramp([3, 5], 0.25, "float16"), b: fixed(ramp([5, 4], 0.5, "float16")), c: ramp([4], 1, "float16") }),
    sample("no bias", { a: noise([2, 3]), b: noise([3, 2], 2) }),
    rejects("sizes do not fit", { a: ramp([3, 4]), b: ramp([5, 2]) }, 100021, /4 columns against 5 rows/),
    rejects("rank 3", { a: ramp([1, 3, 4]), b: ramp([4, 2]) }, 100021, /takes matrices/),
  ],
});
