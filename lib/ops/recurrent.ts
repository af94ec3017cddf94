/** LSTM, GRU and RNN: the products of all inputs are one MATMUL per direction, the recurrence is one RNN instruction. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { decode, type Stored } from "../graph/tensor";
import { packRnn } from "../program/encode-rnn";
import type { RnnName, View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, float, floats, int, string, strings, type AttributeSpec, type Tolerance } from "./define";
import type { Expansion } from "./expansion";
import { type Lowering, Operand } from "./lowering";
import { packedMatrix } from "./packing";
import { gateCounts, recurrence, type RecurrentInputs, USUAL } from "./recurrence";
import { activationsOf, writeSteps } from "./recurrent-steps";
import { fixed, noise, rejects, type Sample, sample, values } from "./sample";
import { StripBuilder } from "./strip-builder";
import { permuteView, reshapeView, sliceView } from "./views";

type Layer = "LSTM" | "GRU" | "RNN";

const ATTRIBUTES = {
  activations: strings(),
  activation_alpha: floats(),
  activation_beta: floats(),
  clip: float(),
  direction: string("forward"),
  hidden_size: int(),
  input_forget: int(0),
  layout: int(0),
  linear_before_reset: int(0),
  output_sequence: int(0),
} as const;
type Given = { readonly [K in keyof typeof ATTRIBUTES]: (typeof ATTRIBUTES)[K] extends AttributeSpec<infer T> ? T : never };

const directions = ({ direction }: Given): number => (direction === "bidirectional" ? 2 : 1);
/** Logical [time, batch, ...] of a view that `layout` may have the other way round. */
const timeFirst = (view: View, layout: number): View => (layout ? permuteView(view, [1, 0, ...view.dims.map((_, axis) => axis).slice(2)]) : view);

function check(
  layer: Layer,
  x: { readonly dims: readonly Dim[] },
  w: { readonly dims: readonly Dim[] },
  r: { readonly dims: readonly Dim[] },
  given: Given,
  node: string,
): number {
  const [gates, count] = [gateCounts[layer], directions(given)];
  const [inputs, hidden] = [x.dims[2], r.dims[2] as number];
  if (!["forward", "reverse", "bidirectional"].includes(given.direction)) {
    throw shapeError(`${node}: direction "${given.direction}" is none of forward, reverse, bidirectional`);
  }
  const fits =
    x.dims.length === 3 &&
    w.dims.join() === [count, gates * hidden, typeof inputs === "number" ? inputs : w.dims[2]].join() &&
    r.dims.join() === [count, gates * hidden, hidden].join() &&
    (given.hidden_size === undefined || given.hidden_size === hidden);
  if (!fits) {
    throw shapeError(`${node}: data ${formatDims(x.dims)}, weights ${formatDims(w.dims)} and recurrent weights ${formatDims(r.dims)} do not fit`);
  }
  return hidden;
}

/** The kernel of these attributes, if there is one. */
function kindOf(layer: Layer, given: Given): RnnName | undefined {
  const names = (given.activations ?? []).map((name) => name.toLowerCase());
  const each = USUAL[layer].length;
  const usual = names.every((name, i) => name === USUAL[layer][i % each]);
  const rectified = layer === "RNN" && names.length > 0 && names.every((name) => name === "relu");
  if ((!usual && !rectified) || given.clip !== undefined || given.input_forget) {
    return undefined;
  }
  if (layer === "RNN") {
    return rectified ? "relu" : "tanh";
  }
  return layer === "LSTM" ? "lstm" : given.linear_before_reset ? "gru_reset_after" : "gru";
}

/** Whether one RNN instruction per direction does it: all sequences go to the end, and weights are known when the model is compiled. */
function isPlainLayer(layer: Layer, { x, w, r, bias, lengths, peepholes }: Named<Value>, given: Given): boolean {
  const time = x.dims![given.layout ? 1 : 0];
  const known = [w, r, bias, peepholes].every((each) => !each || each.constant);
  const whole =
    !lengths || (lengths.constant && Array.from(decode(lengths.constant).data as ArrayLike<number>).every((each) => Number(each) === time));
  return kindOf(layer, given) !== undefined && x.dtype === "float32" && known && whole === true;
}

function expandLayer(g: Expansion, layer: Layer, given: Given, named: Named<Value>): (Value | undefined)[] {
  const single = (of: Value | undefined): Value | undefined => of && g.cast(of, "float32");
  const turned = (of: Value | undefined): Value | undefined => of && (given.layout ? g.transpose(of, [1, 0, 2]) : of);
  const { y, h, c } = writeSteps(g, {
    layer,
    x: turned(single(named.x))!,
    w: single(named.w)!,
    r: single(named.r)!,
    bias: single(named.bias),
    lengths: named.lengths,
    h: turned(single(named.h)),
    c: turned(single(named.c)),
    peepholes: single(named.peepholes),
    activations: activationsOf(given, USUAL[layer], directions(given), g.what),
    clip: given.clip,
    inputForget: given.input_forget !== 0,
    resetAfter: given.linear_before_reset !== 0,
    direction: given.direction,
  });
  const sequence = given.layout ? g.transpose(y, [2, 0, 1, 3]) : y;
  return [sequence, turned(h), turned(c)].map((value, index) => (value && g.has(index) ? g.cast(value, named.x.dtype!) : undefined));
}

/** Direction `d` of constant weights [directions, ...]. */
function directionOf(b: Lowering, of: Operand, d: number): Operand {
  const stored = of.stored!;
  const dims = stored.dims.slice(1);
  const size = stored.bytes.byteLength / stored.dims[0]!;
  const constant: Stored = { dtype: stored.dtype, dims, bytes: stored.bytes.subarray(d * size, (d + 1) * size) };
  const source = of.value.source === undefined ? {} : { source: `${of.value.source}@${d}` };
  return new Operand({ name: `${of.value.name}@${d}`, dtype: stored.dtype, dims, constant, ...source }, b.program);
}

function recurrentWeights(b: Lowering, r: Operand, gates: number, hidden: number): View {
  return b.derived(r.value, `rnn:${gates}:${hidden}`, "float32", [gates * hidden, hidden], () => {
    const packed = packRnn(Float32Array.from(r.constant!.data as Float64Array), gates, hidden);
    return new Uint8Array(packed.buffer);
  });
}

/** What is added to the products of the inputs, and what stays inside the reset gate of a GRU. */
function biases(b: Lowering, bias: Operand | undefined, d: number, gates: number, hidden: number, kind: RnnName): { outer?: View; inner?: View } {
  const all = bias ? Float64Array.from(bias.constant!.data as Float64Array).subarray(d * 2 * gates * hidden) : new Float64Array(2 * gates * hidden);
  const keeps = kind === "gru_reset_after";
  const outer = new Float64Array(gates * hidden).map((_, i) => all[i]! + (keeps && i >= 2 * hidden ? 0 : all[gates * hidden + i]!));
  return {
    ...(bias ? { outer: b.computed({ dtype: "float32", dims: [gates * hidden], data: outer }) } : {}),
    ...(keeps ? { inner: b.computed({ dtype: "float32", dims: [hidden], data: all.slice((gates + 2) * hidden, (gates + 3) * hidden) }) } : {}),
  };
}

interface Named<T> {
  readonly x: T;
  readonly w: T;
  readonly r: T;
  readonly bias?: T;
  readonly lengths?: T;
  readonly h?: T;
  readonly c?: T;
  readonly peepholes?: T;
}

/** [batch, hidden] that starts with direction `d` of `first` (or zeros) and is output `index`, if the node has that. */
function stateOf(
  b: Lowering,
  index: number,
  first: Operand | undefined,
  d: number,
  layout: number,
  dims: readonly [number, number],
  whole: View | undefined,
): View {
  const pick = (view: View): View => {
    const directionFirst = layout ? permuteView(view, [1, 0, 2]) : view;
    const part = sliceView(directionFirst, 0, d, 1);
    return { ...part, dims: part.dims.slice(1), strides: part.strides.slice(1) };
  };
  const state = whole ? pick(whole) : b.temporary("float32", dims, undefined, `${b.node.name}.state${index}`);
  if (first) {
    b.map(state, [pick(first.view)], (_, value) => value!);
  } else {
    b.map(state, [], (s) => s.constant("f32", 0));
  }
  return state;
}

function lowerLayer(b: Lowering, layer: Layer, { x, w, r, bias, h, c, peepholes }: Named<Operand>, given: Given): void {
  const kind = kindOf(layer, given)!;
  const gates = gateCounts[layer];
  const source = timeFirst(x.view, given.layout);
  const [time, batch, inputs] = source.dims as [number, number, number];
  const hidden = r.dims[2]!;
  const rows = reshapeView(b.arranged(source), [time * batch, inputs])!;
  const wholes = [1, 2].map((index) => (b.has(index) ? b.target(index) : undefined));
  // Y is [time, directions, batch, hidden], or [batch, time, directions, hidden].
  const sequence = b.has(0) ? b.target(0) : undefined;
  const ordered = sequence && (given.layout ? permuteView(sequence, [1, 2, 0, 3]) : sequence);
  for (let d = 0; d < directions(given); d++) {
    const { outer, inner } = biases(b, bias, d, gates, hidden, kind);
    const products = b.temporary("float32", [time * batch, gates * hidden], undefined, `${b.node.name}.products${d}`);
    const strip = new StripBuilder(products.dims);
    if (outer) {
      strip.output(products, strip.op("add", strip.accumulator(), strip.input(outer)));
    }
    b.matmul(products, rows, packedMatrix(b, directionOf(b, w, d), true), true, outer ? strip.strip() : undefined);
    const backwards = given.direction === "reverse" || d === 1;
    const turn = (view: View): View => (backwards ? sliceView(view, 0, time - 1, time, -1) : view);
    const part = ordered && sliceView(ordered, 1, d, 1);
    const target = part
      ? { ...part, dims: part.dims.toSpliced(1, 1), strides: part.strides.toSpliced(1, 1) }
      : b.temporary("float32", [time, batch, hidden], undefined, `${b.node.name}.sequence`);
    const state = stateOf(b, 1, h, d, given.layout, [batch, hidden], wholes[0]);
    const cell = layer === "LSTM" ? stateOf(b, 2, c, d, given.layout, [batch, hidden], wholes[1]) : undefined;
    const extra = peepholes ? peepholes.view : undefined;
    const hooks = extra && reshapeView(sliceView(extra, 0, d, 1), [3 * hidden])!;
    b.rnn(
      kind,
      turn(target),
      turn(reshapeView(products, [time, batch, gates * hidden])!),
      recurrentWeights(b, directionOf(b, r, d), gates, hidden),
      state,
      cell,
      hooks ?? inner,
    );
  }
}

const CLOSE: Tolerance = { relative: 2e-5, absolute: 1e-5, why: "f32 sums and activations, step after step" };

function layer(name: Layer, newest: number, extraInputs: readonly string[], samples: () => readonly Sample[]): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["x", "w", "r", "bias?", "lengths?", "h?", ...extraInputs] as unknown as readonly [
      "x",
      "w",
      "r",
      "bias?",
      "lengths?",
      "h?",
      "c?",
      "peepholes?",
    ],
    outputs: name === "LSTM" ? 3 : 2,
    attributes: ATTRIBUTES,
    infer: ({ x, w, r }, given, { node, outputs }) => {
      requireDtype(x.dtype, "float", node);
      if (w.dtype !== x.dtype || r.dtype !== x.dtype) {
        throw new AclError(100026, `${node} mixes ${x.dtype}, ${w.dtype} and ${r.dtype}; data and weights need one element type`);
      }
      const hidden = check(name, x, w, r, given as Given, node);
      const [first, second] = [x.dims[0]!, x.dims[1]!];
      const [time, batch, count] = given.layout ? [second, first, directions(given as Given)] : [first, second, directions(given as Given)];
      const last = given.layout ? [batch, count, hidden] : [count, batch, hidden];
      const all = given.layout ? [batch, time, count, hidden] : [time, count, batch, hidden];
      return [all, last, last].slice(0, outputs).map((dims) => ({ dtype: x.dtype, dims }));
    },
    reference: (inputs, given, types) => recurrence(name, inputs as RecurrentInputs, given as Given, types),
    lower: (b, inputs, given) => lowerLayer(b, name, inputs as unknown as Named<Operand>, given as Given),
    expand: (g, inputs, given) => {
      const named = inputs as unknown as Named<Value>;
      return isPlainLayer(name, named, given as Given) ? undefined : expandLayer(g, name, given as Given, named);
    },
    tolerance: CLOSE,
    samples,
  });
}

/** Data, weights and bias of a layer with `gates` gates. */
const inputs = (gates: number, [time, batch, size, hidden]: readonly [number, number, number, number], count = 1) => ({
  x: noise([time, batch, size]),
  w: fixed(noise([count, gates * hidden, size], 2)),
  r: fixed(noise([count, gates * hidden, hidden], 3)),
  bias: fixed(noise([count, 2 * gates * hidden], 4)),
});
const both = { direction: "bidirectional" as never };

export const LSTM = layer("LSTM", 22, ["c?", "peepholes?"], () => [
  sample("states in and out", { ...inputs(4, [3, 2, 5, 7]), h: noise([1, 2, 7], 5), c: noise([1, 2, 7], 6) }, { outputs: 3 }),
  sample("both directions", inputs(4, [4, 1, 3, 18], 2), { outputs: 3, attributes: both }),
  sample("peepholes, no bias", { ...inputs(4, [2, 1, 3, 4]), bias: undefined, peepholes: fixed(noise([1, 12], 7)) }, { outputs: 1 }),
  sample("batch first", inputs(4, [2, 3, 4, 5]), { outputs: 3, attributes: { layout: 1 } }),
  rejects("weights that do not fit", { ...inputs(4, [3, 2, 5, 7]), r: fixed(noise([1, 28, 6])) }, 100021, /do not fit/),
  sample(
    "clip, lengths, both directions",
    { ...inputs(4, [4, 2, 3, 5], 2), lengths: values("int32", [2], [2, 4]), h: noise([2, 2, 5], 5), peepholes: fixed(noise([2, 15], 7)) },
    { outputs: 3, attributes: { ...both, clip: 0.5 } },
  ),
  sample("batch first, other activations", inputs(4, [2, 3, 4, 5]), {
    outputs: 3,
    attributes: { layout: 1, input_forget: 1, activations: ["HardSigmoid", "Softsign", "LeakyRelu"] as never, activation_alpha: [0.3, 0.1] },
    floats: ["activation_alpha"],
  }),
  rejects("no such activation", inputs(4, [1, 1, 2, 2]), 100023, /"Sinus"/, { attributes: { activations: ["Sinus", "Tanh", "Tanh"] as never } }),
]);
export const GRU = layer("GRU", 22, [], () => [
  sample("reset before", { ...inputs(3, [3, 2, 5, 6]), h: noise([1, 2, 6], 5) }, { outputs: 2 }),
  sample("reset after", inputs(3, [5, 2, 3, 16]), { outputs: 2, attributes: { linear_before_reset: 1 } }),
  sample(
    "reset after, no bias, both directions",
    { ...inputs(3, [4, 1, 3, 4], 2), bias: undefined },
    { outputs: 2, attributes: { ...both, linear_before_reset: 1 } },
  ),
  sample(
    "reset before, lengths backwards",
    { ...inputs(3, [4, 3, 3, 5]), lengths: values("int32", [3], [4, 1, 3]) },
    { outputs: 2, attributes: { direction: "reverse" as never } },
  ),
  sample(
    "reset after, clip, weights at run time",
    { ...inputs(3, [3, 2, 3, 4]), w: noise([1, 12, 3], 2), r: noise([1, 12, 4], 3) },
    { outputs: 2, attributes: { linear_before_reset: 1, clip: 0.25 } },
  ),
  sample("backwards", inputs(3, [4, 1, 3, 5]), { outputs: 2, attributes: { direction: "reverse" as never } }),
]);
export const RNN = layer("RNN", 22, [], () => [
  sample("tanh", { ...inputs(1, [3, 2, 4, 5]), lengths: fixed(values("int32", [2], [3, 3])) }, { outputs: 2 }),
  sample("relu", inputs(1, [2, 1, 3, 20]), { outputs: 1, attributes: { activations: ["Relu"] as never } }),
  sample("sequences of other lengths", { ...inputs(1, [3, 2, 4, 5]), lengths: fixed(values("int32", [2], [3, 0])) }, { outputs: 2 }),
]);
