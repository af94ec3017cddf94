/** Arithmetic of integers and truth values that models need less often. */
import { AclError } from "../errors/acl-error";
import { DTYPES } from "../graph/dtype";
import { isFloat, isInteger, isSigned } from "../graph/tensor";
import type { StripOpName } from "../program/types";
import { broadcastType, mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, int, required, string } from "./define";
import { positive, ramp, rejects, type Sample, sample, values } from "./sample";

const TRUTHS = (): Sample => sample("bool", { a: values("bool", [4], [0, 0, 1, 1]), b: values("bool", [4], [0, 1, 0, 1]) });

export const Xor = defineOp({
  names: { onnx: ["Xor", 7] },
  inputs: ["a", "b"],
  layout: "follow",
  infer: ({ a, b }, _, { node }) => {
    requireDtype(a.dtype, "bool", node);
    return [broadcastType([a, b], node, "bool")];
  },
  reference: ({ a, b }, _, [out]) => [mapTensors({ real: (x, y) => +(x !== y) }, [a, b], out!)],
  lower: (b, { a, b: second }) => b.elementwise([a, second], (s, x, y) => s.op("xor", x!, y!)),
  samples: () => [TRUTHS(), rejects("floats", { a: ramp([2]), b: ramp([2]) }, 100026, /float32/)],
});

/** The sign of the divisor, or with `fmod` that of the dividend. */
export const Mod = defineOp({
  names: { onnx: ["Mod", 13] },
  inputs: ["a", "b"],
  attributes: { fmod: int(0) },
  layout: "follow",
  infer: ({ a, b }, { fmod }, { node }) => {
    requireDtype(a.dtype, "number", node);
    if (isFloat(a.dtype) && !fmod) {
      throw new AclError(100026, `${node}: remainders of ${a.dtype} need fmod = 1`);
    }
    return [broadcastType([a, b], node)];
  },
  reference: ({ a, b }, { fmod }, [out]) => {
    const whole = (x: bigint, y: bigint): bigint => (y === 0n ? 0n : fmod ? x % y : ((x % y) + y) % y);
    return [mapTensors({ real: (x, y) => x! % y!, whole }, [a, b], out!)];
  },
  lower: (b, { a, b: second }, { fmod }) => b.elementwise([a, second], (s, x, y) => s.op(fmod ? "fmod" : "mod", x!, y!)),
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "f32 remainder" },
  samples: () => [
    sample("signs", { a: values("int32", [4], [-7, 7, -7, 7]), b: values("int32", [4], [3, 3, -3, -3]) }),
    sample(
      "signs of the dividend",
      { a: values("int64", [4], [-7n, 7n, -7n, 7n]), b: values("int64", [4], [3n, 3n, -3n, -3n]) },
      { attributes: { fmod: 1 } },
    ),
    sample("floats", { a: ramp([9], 1.25), b: positive([9], 0.5) }, { attributes: { fmod: 1 } }),
    rejects("floats without fmod", { a: ramp([2]), b: ramp([2]) }, 100026, /fmod = 1/),
  ],
});

function bitwise(name: string, strip: StripOpName, f: (a: bigint, b: bigint) => bigint): AnyOp {
  return defineOp({
    names: { onnx: [name, 18] },
    inputs: ["a", "b"],
    layout: "follow",
    infer: ({ a, b }, _, { node }) => {
      requireInteger(a.dtype, node);
      return [broadcastType([a, b], node)];
    },
    reference: ({ a, b }, _, [out]) => [mapTensors({ real: () => Number.NaN, whole: f }, [a, b], out!)],
    lower: (b, { a, b: second }) => b.elementwise([a, second], (s, x, y) => s.op(strip, x!, y!)),
    samples: () => [
      sample("int32", { a: values("int32", [3], [12, -1, 7]), b: values("int32", [3], [10, 255, -8]) }),
      sample("uint8, broadcast", { a: values("uint8", [2, 2], [255, 15, 240, 1]), b: values("uint8", [1], [60]) }),
      rejects("floats", { a: ramp([2]), b: ramp([2]) }, 100026, /integers/),
    ],
  });
}
function requireInteger(dtype: Parameters<typeof isInteger>[0], node: string): void {
  if (!isInteger(dtype)) {
    throw new AclError(100026, `${node} does not take ${dtype}; it takes integers`);
  }
}
export const BitwiseAnd = bitwise("BitwiseAnd", "bitand", (a, b) => a & b);
export const BitwiseOr = bitwise("BitwiseOr", "bitor", (a, b) => a | b);
export const BitwiseXor = bitwise("BitwiseXor", "bitxor", (a, b) => a ^ b);

export const BitwiseNot = defineOp({
  names: { onnx: ["BitwiseNot", 18] },
  inputs: ["x"],
  layout: "follow",
  infer: ({ x }, _, { node }) => {
    requireInteger(x.dtype, node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, _, [out]) => [mapTensors({ real: () => Number.NaN, whole: (v) => ~v }, [x], out!)],
  lower: (b, { x }) => b.elementwise([x], (s, v) => s.op("bitnot", v!)),
  samples: () => [
    sample("int32", { x: values("int32", [3], [0, -1, 7]) }),
    sample("uint8", { x: values("uint8", [3], [0, 255, 60]) }),
    rejects("floats", { x: ramp([2]) }, 100026, /integers/),
  ],
});

export const BitShift = defineOp({
  names: { onnx: ["BitShift", 11] },
  inputs: ["a", "b"],
  attributes: { direction: required(string()) },
  layout: "follow",
  infer: ({ a, b }, { direction }, { node }) => {
    if (!isInteger(a.dtype) || isSigned(a.dtype)) {
      throw new AclError(100026, `${node} does not take ${a.dtype}; it takes unsigned integers`);
    }
    if (direction !== "LEFT" && direction !== "RIGHT") {
      throw new AclError(100023, `${node}: direction "${direction}" is neither LEFT nor RIGHT`);
    }
    return [broadcastType([a, b], node)];
  },
  reference: ({ a, b }, { direction }, [out]) => {
    const bits = BigInt(DTYPES[out!.dtype].bits);
    const whole = (x: bigint, by: bigint): bigint => (by >= bits ? 0n : direction === "LEFT" ? x << by : x >> by);
    return [mapTensors({ real: () => Number.NaN, whole }, [a, b], out!)];
  },
  lower: (b, { a, b: second }, { direction }) => b.elementwise([a, second], (s, x, by) => s.op(direction === "LEFT" ? "shl" : "shr", x!, by!)),
  samples: () => [
    sample(
      "left",
      { a: values("uint32", [3], [1, 5, 2147483649]), b: values("uint32", [3], [4, 31, 1]) },
      { attributes: { direction: "LEFT" as never } },
    ),
    sample("right", { a: values("uint8", [3], [255, 16, 1]), b: values("uint8", [3], [4, 2, 1]) }, { attributes: { direction: "RIGHT" as never } }),
    rejects("signed", { a: values("int32", [1], [1]), b: values("int32", [1], [1]) }, 100026, /unsigned/, {
      attributes: { direction: "LEFT" as never },
    }),
  ],
});
