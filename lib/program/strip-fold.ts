/**
 * f32 operations of a strip that are done in one: gelu, silu, hard swish, multiply-add, clip, prelu, a sum or product and relu, scaling to bytes.
 * Exporters write gelu and its kind in many ways, so the parts are not compared by form but by value: they have to give the numbers of the function.
 */
import type { DtypeName } from "../graph/dtype";
import type { Strip, StripOpName, StripValue } from "./types";

type Op = Extract<StripValue, { kind: "op" }>;

/** What a function is recognised by. The parts are computed with the same approximation, so it need not be a good one. */
function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
  return x < 0 ? -y : y;
}
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const clamp = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);

/** Operations that the parts of a function may consist of. */
const EVALUATED: Partial<Record<StripOpName, (...args: readonly [number, number, number]) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
  pow: (a, b) => a ** b,
  neg: (a) => -a,
  exp: Math.exp,
  tanh: Math.tanh,
  erf,
  sigmoid,
  relu: (a) => Math.max(a, 0),
  clip: clamp,
  muladd: (a, b, c) => a * b + c,
  reciprocal: (a) => 1 / a,
};

/** Functions with a loop of their own, and an operation without which nothing computes them. */
const FUNCTIONS: readonly { readonly op: StripOpName; readonly needs: readonly StripOpName[]; readonly f: (x: number) => number }[] = [
  { op: "gelu", needs: ["erf"], f: (x) => (x / 2) * (1 + erf(x * Math.SQRT1_2)) },
  { op: "gelu_tanh", needs: ["tanh"], f: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))) },
  { op: "silu", needs: ["sigmoid", "exp"], f: (x) => x * sigmoid(x) },
  { op: "hard_swish", needs: ["clip", "min", "relu"], f: (x) => x * clamp(x / 6 + 0.5, 0, 1) },
];
/** On both sides of every bend of these functions, and far out, where a bend of another kind would show. */
const POINTS = [-1e4, -90, -12, -5.3, -3.2, -2.9, -2.2, -1.3, -0.7, -0.2, -0.01, 0.03, 0.4, 0.9, 1.7, 2.6, 2.9, 3.2, 4.9, 5.8, 6.3, 12, 90, 1e4];
/** What a relu behind it becomes part of. */
const WITH_RELU: Partial<Record<StripOpName, StripOpName>> = { add: "add_relu", mul: "mul_relu", muladd: "muladd_relu" };
/** Constants of the parts are f32. */
const CLOSE = 1e-6;

class Folder {
  readonly #values: StripValue[];
  readonly #uses: number[];

  constructor(readonly strip: Strip) {
    this.#values = [...strip.values];
    this.#uses = this.#values.map(() => 0);
    for (const value of this.#values) if (value.kind === "op") for (const arg of value.args) this.#uses[arg]!++;
    for (const { value } of strip.outputs) this.#uses[value]!++;
  }

  /** Value `at` if it is this f32 operation. */
  #op(at: number, op: StripOpName): Op | undefined {
    const value = this.#values[at];
    return value?.kind === "op" && value.op === op && value.type === "f32" ? value : undefined;
  }

  #constant(at: number): number | undefined {
    const value = this.#values[at];
    return value?.kind === "constant" && value.type === "f32" ? Number(value.value) : undefined;
  }

  /** f32 operations that `root` and nobody else uses, and from the last one down every value x of which `root` is a function by them alone. */
  *#arguments(root: number): Generator<{ readonly x: number; readonly parts: readonly number[] }> {
    const parts: number[] = [];
    const inside = new Map<number, number>();
    let open = new Set([root]);
    for (;;) {
      const at = Math.max(...open);
      const alone = open.size === 1 && at !== root;
      if (alone) yield { x: at, parts };
      const value = this.#values[at]!;
      const own = at === root || inside.get(at) === this.#uses[at];
      if (value.kind !== "op" || value.type !== "f32" || !(value.op in EVALUATED) || !own) return;
      parts.push(at);
      for (const arg of value.args) inside.set(arg, (inside.get(arg) ?? 0) + 1);
      open = new Set([...open, ...value.args.filter((arg) => this.#constant(arg) === undefined)]);
      open.delete(at);
      if (open.size === 0) return;
    }
  }

  #evaluate(root: number, x: number, parts: readonly number[], point: number): number {
    const known = new Map([[x, point]]);
    for (const at of parts.toReversed()) {
      const { op, args } = this.#values[at] as Op;
      const numbers = args.map((arg) => known.get(arg) ?? this.#constant(arg)!);
      known.set(at, EVALUATED[op]!(numbers[0]!, numbers[1]!, numbers[2]!));
    }
    return known.get(root)!;
  }

  #function(root: number): Op | undefined {
    for (const { x, parts } of this.#arguments(root)) {
      const ops = parts.map((at) => (this.#values[at] as Op).op);
      const found = FUNCTIONS.find(
        ({ needs, f }) =>
          needs.some((op) => ops.includes(op)) &&
          POINTS.every((point) => Math.abs(this.#evaluate(root, x, parts, point) - f(point)) <= CLOSE * Math.abs(f(point)) + 1e-12),
      );
      if (found) return { kind: "op", op: found.op, type: "f32", args: [x] };
    }
    return undefined;
  }

  #replacement(at: number): Op | undefined {
    const value = this.#values[at]!;
    if (value.kind !== "op" || value.type !== "f32") return undefined;
    const single = (arg: number, op: StripOpName): Op | undefined => (this.#uses[arg] === 1 ? this.#op(arg, op) : undefined);
    const replaced = (op: StripOpName, ...args: number[]): Op => ({ kind: "op", op, type: "f32", args });
    switch (value.op) {
      case "mul":
      case "div":
        return this.#function(at);
      case "add": {
        const product = value.args.find((arg) => single(arg, "mul"));
        if (product === undefined) return undefined;
        const term = value.args[0] === product ? value.args[1]! : value.args[0]!;
        return this.#function(at) ?? replaced("muladd", ...this.#op(product, "mul")!.args, term);
      }
      case "min": {
        const [inner, high] = value.args as [number, number];
        const low = single(inner, "max")?.args[1];
        // Limits that are NaN, or in the wrong order, are for the exact operations.
        const ordered = low !== undefined && (this.#constant(low) ?? Number.NaN) <= (this.#constant(high) ?? Number.NaN);
        return ordered ? replaced("clip", this.#op(inner, "max")!.args[0]!, low, high) : undefined;
      }
      case "relu": {
        const { op, args } = this.#values[value.args[0]!] as Op;
        const product = op === "add" && single(value.args[0]!, "add") ? args.find((arg) => single(arg, "mul")) : undefined;
        if (product !== undefined) {
          return replaced("muladd_relu", ...this.#op(product, "mul")!.args, args[0] === product ? args[1]! : args[0]!);
        }
        const whole = WITH_RELU[op];
        return whole && single(value.args[0]!, op) && replaced(whole, ...args);
      }
      case "select": {
        const [negative, scaled, x] = value.args as [number, number, number];
        const [test, product] = [single(negative, "lt"), single(scaled, "mul")];
        if (test?.args[0] !== x || this.#constant(test.args[1]!) !== 0 || !product?.args.includes(x)) return undefined;
        return replaced("prelu", x, product.args[product.args[0] === x ? 1 : 0]!);
      }
      default:
        return undefined;
    }
  }

  /** Value `at` scaled, rounded, moved and cut in one, where nothing but the store of bytes reads it. */
  #bytes(at: number, dtype: DtypeName): Op | undefined {
    if (this.#uses[at] !== 1 || (dtype !== "int8" && dtype !== "uint8")) return undefined;
    const [steps, zero] = this.#op(at, "add")?.args ?? [];
    const [product] = (steps !== undefined && this.#uses[steps] === 1 && this.#op(steps, "round")?.args) || [];
    const factors = product !== undefined && this.#uses[product] === 1 && this.#op(product, "mul")?.args;
    return factors ? { kind: "op", op: `quantize_${dtype}`, type: "f32", args: [...factors, zero!] } : undefined;
  }

  #replace(at: number, found: Op | undefined): void {
    if (!found) return;
    for (const arg of found.args) this.#uses[arg]!++;
    this.#drop(at);
    this.#values[at] = found;
  }

  /** The values from the last to the first: what a replacement no longer reads goes before it is looked at itself. */
  run(): StripValue[] {
    for (const { view, value } of this.strip.outputs) this.#replace(value, this.#bytes(value, view.dtype));
    for (let at = this.#values.length - 1; at >= 0; at--) {
      if (this.#uses[at]! > 0) this.#replace(at, this.#replacement(at));
    }
    return this.#values;
  }

  /** Value `at` reads its arguments no more. */
  #drop(at: number): void {
    const value = this.#values[at]!;
    if (value.kind !== "op") return;
    for (const arg of value.args) {
      this.#uses[arg]!--;
      if (this.#uses[arg] === 0) this.#drop(arg);
    }
  }

  used(at: number): boolean {
    return this.#uses[at]! > 0;
  }
}

/** The strip with such operations folded and without the values that nobody reads then. */
export function foldStrip(strip: Strip): Strip {
  if (strip.values.filter(({ kind }) => kind === "op").length < 2) return strip;
  const folder = new Folder(strip);
  const values = folder.run();
  const at = new Map<number, number>();
  const kept: StripValue[] = [];
  for (const [i, value] of values.entries()) {
    if (!folder.used(i)) continue;
    at.set(i, kept.length);
    kept.push(value.kind === "op" ? { ...value, args: value.args.map((arg) => at.get(arg)!) } : value);
  }
  return { values: kept, outputs: strip.outputs.map(({ view, value }) => ({ view, value: at.get(value)! })) };
}
