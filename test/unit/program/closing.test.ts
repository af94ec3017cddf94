/** What of an epilogue the matrix kernels take over, and that the rest still means the same. */
import { Closing } from "../../../dist/asm/abi/isa";
import { splitEpilogue } from "../../../dist/lib/program/closing";
import type { Blob, Strip, StripOpName, StripValue, View } from "../../../lib/program/types";

const blob: Blob = { id: 0, name: "b", binding: "arena", sizeBytes: 512, offsetBytes: 0 };
/** [N, C, W] with channels innermost in memory; axis 1 has the columns. */
const target: View = { blob, dtype: "float32", offsetBytes: 0, dims: [1, 8, 4], strides: [128, 4, 32] };
const read = (strides: readonly number[]): StripValue => ({ kind: "input", view: { ...target, strides }, type: "f32" });
const perChannel = read([0, 4, 0]);
const acc: StripValue = { kind: "accumulator", type: "f32" };
const constant = (value: number): StripValue => ({ kind: "constant", type: "f32", value });
const op = (name: StripOpName, ...args: number[]): StripValue => ({ kind: "op", op: name, type: "f32", args });

const split = (...values: StripValue[]) => {
  const strip: Strip = { values, outputs: [{ view: target, value: values.length - 1 }] };
  const { flags, greatest, bias, rest } = splitEpilogue(strip, target, 1);
  const cap = new DataView(new ArrayBuffer(4));
  cap.setUint32(0, greatest);
  const text = rest?.values.map((value) => (value.kind === "op" ? `${value.op}(${value.args})` : value.kind)).join(" ");
  return { flags, biased: bias !== undefined, greatest: cap.getFloat32(0), rest: text };
};
const { BIAS, RELU, CAPPED } = Closing;

test("bias; bias and relu; relu alone: nothing is left", () => {
  expect(split(acc, perChannel, op("add", 0, 1))).toEqual({ flags: BIAS, biased: true, greatest: 0, rest: undefined });
  expect(split(acc, perChannel, op("add", 1, 0), op("relu", 2))).toEqual({ flags: BIAS | RELU, biased: true, greatest: 0, rest: undefined });
  expect(split(acc, op("relu", 0))).toEqual({ flags: RELU, biased: false, greatest: 0, rest: undefined });
});

test("a clip from 0 up, as Clip is lowered", () => {
  const clip = split(acc, perChannel, constant(0), constant(6), op("add", 0, 1), op("max", 4, 2), op("min", 5, 3));
  expect(clip).toEqual({ flags: BIAS | RELU | CAPPED, biased: true, greatest: 6, rest: undefined });
  expect(split(acc, constant(1), op("min", 0, 1))).toEqual({ flags: CAPPED, biased: false, greatest: 1, rest: undefined });
});

test("other limits stay with the strip", () => {
  expect(split(acc, constant(-1), op("max", 0, 1))).toMatchObject({ flags: 0, rest: "accumulator constant max(0,1)" });
  expect(split(acc, constant(-1), op("min", 0, 1))).toMatchObject({ flags: 0, rest: "accumulator constant min(0,1)" });
  expect(split(acc, constant(Number.NaN), op("min", 0, 1))).toMatchObject({ flags: 0 });
});

test("the bias of a sum that is read twice, and an operand of every element", () => {
  const twice = split(acc, perChannel, op("add", 0, 1), op("sigmoid", 2), op("mul", 2, 3));
  expect(twice).toEqual({ flags: BIAS, biased: true, greatest: 0, rest: "accumulator sigmoid(0) mul(0,1)" });
  const residual = split(acc, perChannel, read([128, 4, 32]), op("add", 0, 1), op("add", 3, 2), op("relu", 4));
  expect(residual).toEqual({ flags: BIAS, biased: true, greatest: 0, rest: "input accumulator add(1,0) relu(2)" });
});

test("what is no bias of columns: one per pixel, one for all, the accumulator itself", () => {
  for (const strides of [
    [0, 0, 32],
    [0, 0, 0],
    [128, 4, 32],
  ])
    expect(split(acc, read(strides), op("add", 0, 1))).toMatchObject({ flags: 0 });
  expect(split(acc, op("add", 0, 0))).toMatchObject({ flags: 0, rest: "accumulator add(0,0)" });
});
