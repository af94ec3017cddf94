/** f32 operations of a strip that the micro module does in one: add and relu, silu, gelu. */
import type { Strip, StripOp, StripValue } from "./types";

type Op = Extract<StripValue, { kind: "op" }>;

class Folder {
  readonly #values: StripValue[];
  readonly #uses: number[];

  constructor(strip: Strip) {
    this.#values = [...strip.values];
    this.#uses = this.#values.map(() => 0);
    for (const value of this.#values) if (value.kind === "op") for (const arg of value.args) this.#uses[arg]!++;
    for (const { value } of strip.outputs) this.#uses[value]!++;
  }

  /** Value `at` if it is this f32 operation. */
  #op(at: number, op: StripOp["op"]): Op | undefined {
    const value = this.#values[at];
    return value?.kind === "op" && value.op === op && value.type === "f32" ? value : undefined;
  }

  #isConstant(at: number, wanted: number): boolean {
    const value = this.#values[at];
    return value?.kind === "constant" && value.type === "f32" && Math.abs(Number(value.value) - wanted) <= 1e-6 * wanted;
  }

  /** Factors of the product at `at`; a product that somebody else reads too is one factor. */
  #factors(at: number): number[] {
    const product = this.#op(at, "mul");
    return product ? product.args.flatMap((arg) => (this.#uses[arg] === 1 && this.#op(arg, "mul") ? this.#factors(arg) : [arg])) : [at];
  }

  /** x where value `at` is 1 + erf(x / sqrt 2) and read once. */
  #erfArgument(at: number): number | undefined {
    const sum = this.#uses[at] === 1 ? this.#op(at, "add") : undefined;
    const inner = sum?.args.find((arg) => !this.#isConstant(arg, 1));
    if (!sum || inner === undefined || !sum.args.some((arg) => this.#isConstant(arg, 1)) || this.#uses[inner] !== 1) return undefined;
    const erf = this.#op(inner, "erf");
    const scaled = erf && this.#uses[erf.args[0]!] === 1 ? erf.args[0]! : undefined;
    if (scaled === undefined) return undefined;
    const divided = this.#op(scaled, "div");
    if (divided && this.#isConstant(divided.args[1]!, Math.SQRT2)) return divided.args[0]!;
    const times = this.#op(scaled, "mul");
    if (!times?.args.some((arg) => this.#isConstant(arg, Math.SQRT1_2))) return undefined;
    return times.args.find((arg) => !this.#isConstant(arg, Math.SQRT1_2));
  }

  #product(at: number): Op | undefined {
    const factors = this.#factors(at);
    if (factors.length === 2) {
      const gate = factors.find((factor) => this.#uses[factor] === 1 && this.#op(factor, "sigmoid"));
      const x = factors.find((factor) => factor !== gate);
      if (gate !== undefined && x !== undefined && this.#op(gate, "sigmoid")!.args[0] === x)
        return { kind: "op", op: "silu", type: "f32", args: [x] };
    }
    if (factors.length === 3 && factors.some((factor) => this.#isConstant(factor, 0.5))) {
      for (const factor of factors) {
        const x = this.#erfArgument(factor);
        if (x !== undefined && factors.includes(x)) return { kind: "op", op: "gelu", type: "f32", args: [x] };
      }
    }
    return undefined;
  }

  #replacement(at: number): Op | undefined {
    if (this.#op(at, "mul")) return this.#product(at);
    const sum = this.#op(at, "relu")?.args[0];
    const add = sum !== undefined && this.#uses[sum] === 1 ? this.#op(sum, "add") : undefined;
    return add ? { kind: "op", op: "add_relu", type: "f32", args: add.args } : undefined;
  }

  /** The values from the last to the first: what a replacement no longer reads goes before it is looked at itself. */
  run(): StripValue[] {
    for (let at = this.#values.length - 1; at >= 0; at--) {
      const found = this.#uses[at] === 0 ? undefined : this.#replacement(at);
      if (!found) continue;
      for (const arg of found.args) this.#uses[arg]!++;
      this.#drop(at);
      this.#values[at] = found;
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
  if (!strip.values.some((value) => value.kind === "op" && (value.op === "relu" || value.op === "sigmoid" || value.op === "erf"))) return strip;
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
