/**
 * Recurrent layers that the RNN instruction does not know (other activations, clip, sequences of different lengths, weights at run time), written out step
 * by step in other operators. And the activations that the standard names for such layers.
 */
import { AclError } from "../errors/acl-error";
import type { Value } from "../graph/ir";
import type { Expansion } from "./expansion";

interface ActivationKind {
  /** Defaults of what the node may give; a kind without one takes none. */
  readonly alpha?: number;
  readonly beta?: number;
  readonly real: (x: number, alpha: number, beta: number) => number;
  readonly expand: (g: Expansion, x: Value, alpha: number, beta: number) => Value;
}

const scaled = (g: Expansion, x: Value, by: number): Value => g.call("Mul", [x, g.scalar(by)]);

const KINDS: Readonly<Record<string, ActivationKind>> = {
  sigmoid: { real: (x) => 1 / (1 + Math.exp(-x)), expand: (g, x) => g.call("Sigmoid", [x]) },
  tanh: { real: Math.tanh, expand: (g, x) => g.call("Tanh", [x]) },
  relu: { real: (x) => Math.max(0, x), expand: (g, x) => g.call("Relu", [x]) },
  softsign: { real: (x) => x / (1 + Math.abs(x)), expand: (g, x) => g.call("Softsign", [x]) },
  softplus: { real: (x) => Math.log1p(Math.exp(x)), expand: (g, x) => g.call("Softplus", [x]) },
  leakyrelu: { alpha: 0.01, real: (x, a) => (x < 0 ? a * x : x), expand: (g, x, alpha) => g.call("LeakyRelu", [x], { alpha }) },
  thresholdedrelu: { alpha: 1, real: (x, a) => (x > a ? x : 0), expand: (g, x, alpha) => g.call("ThresholdedRelu", [x], { alpha }) },
  elu: { alpha: 1, real: (x, a) => (x < 0 ? a * Math.expm1(x) : x), expand: (g, x, alpha) => g.call("Elu", [x], { alpha }) },
  hardsigmoid: {
    ...{ alpha: 0.2, beta: 0.5 },
    real: (x, a, b) => Math.min(1, Math.max(0, a * x + b)),
    expand: (g, x, alpha, beta) => g.call("HardSigmoid", [x], { alpha, beta }),
  },
  affine: { alpha: 1, beta: 0, real: (x, a, b) => a * x + b, expand: (g, x, a, b) => g.call("Add", [scaled(g, x, a), g.scalar(b)]) },
  scaledtanh: {
    ...{ alpha: 1, beta: 1 },
    real: (x, a, b) => a * Math.tanh(b * x),
    expand: (g, x, a, b) => scaled(g, g.call("Tanh", [scaled(g, x, b)]), a),
  },
};

export interface ActivationGiven {
  readonly activations: readonly string[] | undefined;
  readonly activation_alpha: readonly number[] | undefined;
  readonly activation_beta: readonly number[] | undefined;
}
export interface Activation {
  readonly real: (x: number) => number;
  readonly expand: (g: Expansion, x: Value) => Value;
}

/** The activations of each direction. Alphas and betas belong to those that take one, in order. */
export function activationsOf(given: ActivationGiven, usual: readonly string[], directions: number, node: string): Activation[][] {
  const all = Array.from({ length: directions }, () => usual).flat();
  const names = given.activations && given.activations.length > 0 ? given.activations : all;
  const [alphas, betas] = [[...(given.activation_alpha ?? [])], [...(given.activation_beta ?? [])]];
  const list = names.map((name): Activation => {
    const kind = KINDS[name.toLowerCase()];
    if (!kind) {
      throw new AclError(100023, `${node}: activation "${name}" does not exist; there are ${Object.keys(KINDS).join(", ")}`);
    }
    const alpha = kind.alpha === undefined ? 0 : (alphas.shift() ?? kind.alpha);
    const beta = kind.beta === undefined ? 0 : (betas.shift() ?? kind.beta);
    return { real: (x) => kind.real(x, alpha, beta), expand: (g, x) => kind.expand(g, x, alpha, beta) };
  });
  if (list.length !== usual.length && list.length !== all.length) {
    throw new AclError(100023, `${node}: ${list.length} activations; ${usual.length} are needed for each direction`);
  }
  return Array.from({ length: directions }, (_, d) => (list.length === usual.length ? list : list.slice(d * usual.length, (d + 1) * usual.length)));
}

export interface Steps {
  readonly layer: "LSTM" | "GRU" | "RNN";
  /** [time, batch, size], float32 like everything here. */
  readonly x: Value;
  readonly w: Value;
  readonly r: Value;
  readonly bias: Value | undefined;
  readonly lengths: Value | undefined;
  /** [directions, batch, hidden] */
  readonly h: Value | undefined;
  readonly c: Value | undefined;
  readonly peepholes: Value | undefined;
  readonly activations: readonly (readonly Activation[])[];
  readonly clip: number | undefined;
  readonly inputForget: boolean;
  readonly resetAfter: boolean;
  readonly direction: string;
}

/** More are a program of more than 10,000 instructions. */
const MOST_STEPS = 1024;

/** Equations of one step: what comes from the inputs, and the state before -> the state after. */
type Step = (products: Value, h: Value, c: Value | undefined) => { readonly h: Value; readonly c?: Value };

function stepOf(g: Expansion, s: Steps, d: number): Step {
  const hidden = s.r.dims![2] as number;
  const gates = { LSTM: 4, GRU: 3, RNN: 1 }[s.layer];
  const part = (of: Value, axis: number, at: number): Value => g.slice(of, axis, at * hidden, (at + 1) * hidden);
  const own = (of: Value | undefined, size: number): Value | undefined => of && g.reshape(g.slice(of, 0, d, d + 1), [size]);
  const [add, mul] = [(a: Value, b: Value) => g.call("Add", [a, b]), (a: Value, b: Value) => g.call("Mul", [a, b])];
  const { clip } = s;
  // Sums are cut, the cell that the last activation of an LSTM takes is not.
  const f = s.activations[d]!.map(({ expand }, index) => (x: Value) => {
    const cut = clip === undefined || index === 2 ? x : g.call("Clip", [x, g.scalar(-clip), g.scalar(clip)]);
    return expand(g, cut);
  });
  const weights = g.transpose(g.reshape(g.slice(s.r, 0, d, d + 1), [gates * hidden, hidden]), [1, 0]);
  if (s.layer === "RNN") {
    return (products, h) => ({ h: f[0]!(add(products, g.call("MatMul", [h, weights]))) });
  }
  if (s.layer === "LSTM") {
    const peepholes = own(s.peepholes, 3 * hidden);
    const hook = (at: number, sum: Value, c: Value): Value => (peepholes ? add(sum, mul(part(peepholes, 0, at), c)) : sum);
    return (products, h, c) => {
      const sums = add(products, g.call("MatMul", [h, weights]));
      const [i, o, forget, z] = [0, 1, 2, 3].map((at) => part(sums, 1, at)) as [Value, Value, Value, Value];
      const enter = f[0]!(hook(0, i, c!));
      const keep = s.inputForget ? g.call("Sub", [g.scalar(1), enter]) : f[0]!(hook(2, forget, c!));
      const cell = add(mul(keep, c!), mul(enter, f[1]!(z)));
      return { h: mul(f[0]!(hook(1, o, cell)), f[2]!(cell)), c: cell };
    };
  }
  const inner = s.bias && g.slice(own(s.bias, 6 * hidden)!, 0, 5 * hidden, 6 * hidden);
  const [outer, last] = [g.slice(weights, 1, 0, 2 * hidden), g.slice(weights, 1, 2 * hidden, 3 * hidden)];
  return (products, h) => {
    const sums = add(g.slice(products, 1, 0, 2 * hidden), g.call("MatMul", [h, outer]));
    const [update, reset] = [f[0]!(part(sums, 1, 0)), f[0]!(part(sums, 1, 1))];
    const recurrent = g.call("MatMul", [s.resetAfter ? h : mul(reset, h), last]);
    const whole = inner ? add(recurrent, inner) : recurrent;
    const fresh = f[1]!(add(part(products, 1, 2), s.resetAfter ? mul(reset, whole) : whole));
    return { h: add(mul(g.call("Sub", [g.scalar(1), update]), fresh), mul(update, h)) };
  };
}

/** Products of all inputs of a direction, with every bias but the one that a GRU's step adds: [time * batch, gates * hidden]. */
function productsOf(g: Expansion, s: Steps, x: Value, d: number): Value {
  const [time, batch, size] = x.dims as [number, number, number];
  const rows = s.w.dims![1] as number;
  const weights = g.transpose(g.reshape(g.slice(s.w, 0, d, d + 1), [rows, size]), [1, 0]);
  const products = g.call("MatMul", [g.reshape(x, [time * batch, size]), weights]);
  if (!s.bias) {
    return products;
  }
  const own = g.reshape(g.slice(s.bias, 0, d, d + 1), [2 * rows]);
  const kept = s.layer === "GRU" ? (rows / 3) * 2 : rows;
  const recurrent = g.slice(own, 0, rows, rows + kept);
  const padded = kept < rows ? g.call("Pad", [recurrent, g.list(0, rows - kept)]) : recurrent;
  return g.call("Add", [products, g.call("Add", [g.slice(own, 0, 0, rows), padded])]);
}

/** Y [time, directions, batch, hidden], and the last states [directions, batch, hidden]. */
export function writeSteps(g: Expansion, s: Steps): { readonly y: Value; readonly h: Value; readonly c: Value | undefined } {
  const [time, batch] = s.x.dims as [number, number, number];
  const hidden = s.r.dims![2] as number;
  if (time > MOST_STEPS) {
    throw new AclError(100024, `${g.what}: ${time} steps; a layer with these attributes is written out step by step, ${MOST_STEPS} at most`);
  }
  const lengths = s.lengths && g.reshape(g.cast(s.lengths, "int64"), [batch, 1]);
  const zeros = g.call("ConstantOfShape", [g.list(batch, hidden)]);
  const reversed = (of: Value): Value =>
    s.lengths
      ? g.call("ReverseSequence", [of, g.cast(s.lengths, "int64")], { time_axis: 0, batch_axis: 1 })
      : g.slice(of, 0, time - 1, -(2 ** 31), -1);
  const sides = s.activations.map((_, d) => {
    const backwards = s.direction === "reverse" || d === 1;
    const products = productsOf(g, s, backwards ? reversed(s.x) : s.x, d);
    const step = stepOf(g, s, d);
    const first = (of: Value | undefined): Value => (of ? g.reshape(g.slice(of, 0, d, d + 1), [batch, hidden]) : zeros);
    let [h, c] = [first(s.h), s.layer === "LSTM" ? first(s.c) : undefined];
    const outputs: Value[] = [];
    for (let t = 0; t < time; t++) {
      const next = step(g.slice(products, 0, t * batch, (t + 1) * batch), h, c);
      const goes = lengths && g.call("Less", [g.scalar(t, "int64"), lengths]);
      outputs.push(g.reshape(goes ? g.call("Where", [goes, next.h, g.scalar(0)]) : next.h, [1, batch, hidden]));
      h = goes ? g.call("Where", [goes, next.h, h]) : next.h;
      c = next.c && goes ? g.call("Where", [goes, next.c, c]) : next.c;
    }
    const all = time > 0 ? g.call("Concat", outputs, { axis: 0 }) : g.reshape(g.slice(zeros, 0, 0, 0), [0, batch, hidden]);
    return { all: g.reshape(backwards ? reversed(all) : all, [time, 1, batch, hidden]), h, c };
  });
  const joined = (list: readonly Value[]): Value =>
    g.call(
      "Concat",
      list.map((each) => g.reshape(each, [1, batch, hidden])),
      { axis: 0 },
    );
  return {
    y: g.call(
      "Concat",
      sides.map(({ all }) => all),
      { axis: 1 },
    ),
    h: joined(sides.map(({ h }) => h)),
    c: s.layer === "LSTM" ? joined(sides.map(({ c }) => c!)) : undefined,
  };
}
