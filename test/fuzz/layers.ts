/** Random cases of recurrent layers, of products and convolutions of integers, and of Fourier transforms. */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { tensor } from "../../dist/lib/graph/tensor";
import { geometry } from "./networks";
import type { Case, Random } from "./random";

const recurrent = (r: Random): Case => {
  const op = r.pick(["LSTM", "GRU", "RNN"]);
  const gates = { LSTM: 4, GRU: 3, RNN: 1 }[op]!;
  const direction = r.pick(["forward", "reverse", "bidirectional"]);
  const ways = direction === "bidirectional" ? 2 : 1;
  const [length, batch, size, hidden] = [r.int(1, 5), r.int(1, 3), r.int(1, 6), r.int(1, 9)];
  const weight = (...dims: number[]) => r.tensor("float32", [ways, ...dims], { scale: 0.6, fixed: true });
  const maybe = <T>(make: () => T): T | undefined => (r.chance(0.5) ? make() : undefined);
  const inputs = [
    r.tensor("float32", [length, batch, size]),
    weight(gates * hidden, size),
    weight(gates * hidden, hidden),
    maybe(() => weight(2 * gates * hidden)),
    maybe(() => r.indices([batch], 1, length, { dtype: "int32" })),
    maybe(() => r.tensor("float32", [ways, batch, hidden])),
    ...(op === "LSTM" ? [maybe(() => r.tensor("float32", [ways, batch, hidden])), maybe(() => weight(3 * hidden))] : []),
  ];
  while (inputs.at(-1) === undefined) inputs.pop();
  const attributes = {
    ...{ hidden_size: BigInt(hidden), direction },
    ...(op === "GRU" ? { linear_before_reset: BigInt(r.below(2)) } : {}),
    ...(r.chance(0.2) ? { clip: 0.5 } : {}),
  };
  return { op, opset: 14, inputs, attributes, outputs: op === "LSTM" ? 3 : 2 };
};

const integerProduct = (r: Random): Case => {
  const [m, k, n] = [r.int(1, 9), r.int(1, 40), r.int(1, 9)];
  const [ta, tb] = [r.pick<DtypeName>(["uint8", "int8"]), r.pick<DtypeName>(["uint8", "int8"])];
  const bytes = (dtype: DtypeName, dims: number[], fixed = false) => r.tensor(dtype, dims, { scale: 120, fixed });
  if (r.chance(0.5)) {
    const zeros = [r.chance(0.5) ? bytes(ta, []) : undefined, r.chance(0.5) ? bytes(tb, r.chance(0.5) ? [] : [n]) : undefined];
    return { op: "MatMulInteger", opset: 10, inputs: [bytes(ta, [...r.dims(r.below(2), 0), m, k]), bytes(tb, [k, n], r.chance(0.5)), ...zeros] };
  }
  const scale = (dims: number[] = []) => r.tensor("float32", dims, { scale: 0.1, low: 0.01, fixed: true });
  const per = tb === "int8" && r.chance(0.4) ? [n] : [];
  return {
    op: "QLinearMatMul",
    opset: 10,
    inputs: [
      bytes(ta, [m, k]),
      scale(),
      bytes(ta, [], true),
      bytes(tb, [k, n], true),
      scale(per),
      bytes(tb, per, true),
      { ...tensor("float32", [], [k * 9]), fixed: true },
      bytes(ta, [], true),
    ],
  };
};

const integerConv = (r: Random): Case => {
  const { kernel, spatial, attributes } = geometry(r);
  const group = r.pick([1, 1, 2, 3]);
  const [per, filters] = [r.int(1, 4), group * r.int(1, 4)];
  const bytes = (dtype: DtypeName, dims: number[], fixed = true) => r.tensor(dtype, dims, { scale: 120, fixed });
  const x = bytes("uint8", [r.int(1, 2), group * per, ...spatial], false);
  const own = { ...attributes, group: BigInt(group) };
  if (r.chance(0.4)) {
    const dtype = r.pick<DtypeName>(["uint8", "int8"]);
    return {
      op: "ConvInteger",
      opset: 10,
      inputs: [x, bytes(dtype, [filters, per, ...kernel]), bytes("uint8", []), r.chance(0.5) ? bytes(dtype, []) : undefined],
      attributes: own,
    };
  }
  const scale = (dims: number[] = []) => r.tensor("float32", dims, { scale: 0.1, low: 0.01, fixed: true });
  const bias = r.chance(0.5) ? r.tensor("int32", [filters], { scale: 5000, fixed: true }) : undefined;
  const perFilter = r.chance(0.5) ? [filters] : [];
  const weights = [
    bytes("int8", [filters, per, ...kernel]),
    scale(perFilter),
    { ...tensor("int8", perFilter, new Array(filters).fill(0)), fixed: true },
  ];
  return {
    op: "QLinearConv",
    opset: 10,
    inputs: [x, scale(), bytes("uint8", []), ...weights, { ...tensor("float32", [], [per * 9]), fixed: true }, bytes("uint8", []), bias],
    attributes: own,
  };
};

const dft = (r: Random): Case => {
  const dims = [r.int(1, 2), r.int(1, 12), ...(r.chance(0.4) ? [r.int(1, 6)] : []), r.pick([1, 2])];
  const inverse = dims.at(-1) === 2 && r.chance(0.4) ? 1n : 0n;
  const onesided = dims.at(-1) === 1 && r.chance(0.5) ? 1n : 0n;
  return { op: "DFT", opset: 17, inputs: [r.tensor("float32", dims)], attributes: { axis: BigInt(r.int(1, dims.length - 2)), inverse, onesided } };
};

export const LAYERS: Readonly<Record<string, (r: Random) => Case>> = {
  ...{ Recurrent: recurrent, IntegerProduct: integerProduct, IntegerConv: integerConv, DFT: dft },
};
