/** The reference of recurrent layers: the standard's equations, element by element, in float64. */
import { roundTo, sizeOf, type Tensor } from "../graph/tensor";
import type { ConcreteType } from "./define";
import { type ActivationGiven, activationsOf } from "./recurrent-steps";

type Layer = "LSTM" | "GRU" | "RNN";
export const gateCounts: Readonly<Record<Layer, number>> = { LSTM: 4, GRU: 3, RNN: 1 };

export interface RecurrentInputs {
  readonly x: Tensor;
  readonly w: Tensor;
  readonly r: Tensor;
  readonly bias?: Tensor;
  readonly lengths?: Tensor;
  readonly h?: Tensor;
  readonly c?: Tensor;
  readonly peepholes?: Tensor;
}
interface Given extends ActivationGiven {
  readonly clip: number | undefined;
  readonly input_forget: number;
  readonly direction: string;
  readonly layout: number;
  readonly linear_before_reset: number;
}

export const USUAL: Readonly<Record<Layer, readonly string[]>> = { LSTM: ["sigmoid", "tanh", "tanh"], GRU: ["sigmoid", "tanh"], RNN: ["tanh"] };

/** One direction of one sequence: weights of that direction, state in place. */
class Cell {
  constructor(
    readonly layer: Layer,
    readonly hidden: number,
    readonly w: (row: number) => (x: readonly number[]) => number,
    readonly r: (row: number, of: Float64Array) => number,
    readonly bias: (index: number) => number,
    readonly peephole: (index: number) => number,
    readonly f: readonly ((x: number) => number)[],
    readonly resetAfter: boolean,
    readonly inputForget: boolean,
  ) {}

  step(x: readonly number[], h: Float64Array, c: Float64Array): void {
    const { hidden, layer, f } = this;
    const gates = gateCounts[layer];
    const before = h.slice();
    const sum = (gate: number, unit: number, state = before): number => {
      const row = gate * hidden + unit;
      return this.w(row)(x) + this.r(row, state) + this.bias(row) + this.bias(gates * hidden + row);
    };
    const units = Array.from({ length: hidden }, (_, unit) => unit);
    if (layer === "LSTM") {
      for (const u of units) {
        const i = f[0]!(sum(0, u) + this.peephole(u) * c[u]!);
        const forget = this.inputForget ? 1 - i : f[0]!(sum(2, u) + this.peephole(2 * hidden + u) * c[u]!);
        c[u] = forget * c[u]! + i * f[1]!(sum(3, u));
        h[u] = f[0]!(sum(1, u) + this.peephole(hidden + u) * c[u]!) * f[2]!(c[u]!);
      }
    } else if (layer === "GRU") {
      const reset = Float64Array.from(units, (u) => f[0]!(sum(1, u)));
      const scaled = before.map((value, u) => value * reset[u]!);
      for (const u of units) {
        const row = 2 * hidden + u;
        const inner = this.r(row, before) + this.bias(5 * hidden + u);
        const fresh = f[1]!(this.resetAfter ? this.w(row)(x) + this.bias(row) + reset[u]! * inner : sum(2, u, scaled));
        const keep = f[0]!(sum(0, u));
        h[u] = (1 - keep) * fresh + keep * before[u]!;
      }
    } else {
      for (const u of units) {
        h[u] = f[0]!(sum(0, u));
      }
    }
  }
}

function cellOf(layer: Layer, { w, r, bias, peepholes }: RecurrentInputs, d: number, given: Given): Cell {
  const [gates, hidden, size] = [gateCounts[layer], r.dims[2]!, w.dims[2]!];
  const { clip } = given;
  const f = activationsOf(given, USUAL[layer], w.dims[0]!, layer)[d]!.map(
    ({ real }, index) =>
      (sum: number): number =>
        real(clip === undefined || index === 2 ? sum : Math.min(clip, Math.max(-clip, sum))),
  );
  const at = (of: Tensor | undefined, index: number): number => (of ? (of.data[index] as number) : 0);
  return new Cell(
    layer,
    hidden,
    (row) => (x) => x.reduce((total, value, i) => total + value * at(w, (d * gates * hidden + row) * size + i), 0),
    (row, of) => of.reduce((total, value, i) => total + value * at(r, (d * gates * hidden + row) * hidden + i), 0),
    (index) => at(bias, d * 2 * gates * hidden + index),
    (index) => at(peepholes, d * 3 * hidden + index),
    f,
    given.linear_before_reset !== 0,
    given.input_forget !== 0,
  );
}

export function recurrence(layer: Layer, inputs: RecurrentInputs, given: Given, types: readonly ConcreteType[]): Tensor[] {
  const { x, w, r, h: firstH, c: firstC, lengths } = inputs;
  const [a, b, size] = x.dims as [number, number, number];
  const [time, batch] = given.layout ? [b, a] : [a, b];
  const [count, hidden] = [w.dims[0]!, r.dims[2]!];
  const results = types.map((type) => ({ ...type, data: new Float64Array(sizeOf(type.dims)) }));
  const row = (t: number, n: number): number[] =>
    Array.from({ length: size }, (_, i) => x.data[(given.layout ? n * time + t : t * batch + n) * size + i] as number);
  for (let d = 0; d < count; d++) {
    const cell = cellOf(layer, inputs, d, given);
    for (let n = 0; n < batch; n++) {
      const at = (given.layout ? n * count + d : d * batch + n) * hidden;
      const start = (of: Tensor | undefined): Float64Array => Float64Array.from({ length: hidden }, (_, u) => (of ? (of.data[at + u] as number) : 0));
      const [h, c] = [start(firstH), start(firstC)];
      const length = lengths ? Number(lengths.data[n]) : time;
      for (let step = 0; step < length; step++) {
        const t = given.direction === "reverse" || d === 1 ? length - 1 - step : step;
        cell.step(row(t, n), h, c);
        const place = given.layout ? (n * time + t) * count + d : (t * count + d) * batch + n;
        results[0]?.data.set(h, place * hidden);
      }
      results[1]?.data.set(h, at);
      results[2]?.data.set(c, at);
    }
  }
  return results.map((result) => ({ ...result, data: result.data.map((value) => roundTo(result.dtype, value)) }));
}
