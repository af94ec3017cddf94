/**
 * Writes the bodies of AssemblyScript functions that work on groups of vectors. Every operation is written for all vectors of a group before
 * the next one, and stores of a group are adjacent: that is the order that V8's revectoriser recognises as pairs of 256 bits.
 */
import { SCRATCH } from "./builds.mjs";

/**
 * Constants of vector code lie in memory: V8 rebuilds a v128 constant in the loop with three instructions each time, a broadcast load is one.
 * One table per module; `bind` writes it.
 */
export class Constants {
  #offsets = new Map();

  /** Byte offset of an f32 value, or of an i32 bit pattern given as { bits }. */
  offset(value) {
    const key = typeof value === "number" ? `f${Object.is(value, -0) ? "-0" : value}` : `i${value.bits}`;
    if (!this.#offsets.has(key)) this.#offsets.set(key, { at: this.#offsets.size * 4, value });
    const { at } = this.#offsets.get(key);
    if (at >= SCRATCH.EDGE) throw new Error("the table of constants is full");
    return at;
  }

  /** Statements that fill the table at `base`. */
  stores(base) {
    const text = (value) => (typeof value === "number" ? `store<f32>(${base}, ${literal(value)}` : `store<i32>(${base}, ${value.bits}`);
    return [...this.#offsets.values()].map(({ at, value }) => `${text(value)}, ${at});`).join("\n  ");
  }
}

const literal = (value) => (value === Infinity ? "Infinity" : value === -Infinity ? "-Infinity" : Object.is(value, -0) ? "-0.0" : String(value));

/** `count` names or texts made from their index. */
export const times = (count, make) => Array.from({ length: count }, (_, index) => make(index));

/** A body under construction. A group is an array of names, one per vector; a single text stands for the same operand in all of them. */
export class Body {
  #lines = [];
  #names = 0;

  constructor(build, constants, vectors) {
    this.build = build;
    this.constants = constants;
    this.vectors = vectors;
  }

  line(text) {
    this.#lines.push(text);
  }

  /** Declares one value per vector. */
  each(expression) {
    const name = `v${this.#names++}_`;
    return times(this.vectors, (index) => {
      this.line(`const ${name}${index} = ${expression(index)};`);
      return `${name}${index}`;
    });
  }

  /** A constant for all vectors, loaded once where it is used. */
  constant(value) {
    const name = `k${this.#names++}`;
    this.line(`const ${name} = v128.load32_splat(table, ${this.constants.offset(value)});`);
    return name;
  }

  load(pointer, offset = 0) {
    return this.each((index) => `v128.load(${pointer}, ${offset + index * 16})`);
  }

  store(pointer, group, offset = 0) {
    times(this.vectors, (index) => this.line(`v128.store(${pointer}, ${at(group, index)}, ${offset + index * 16});`));
  }

  call(name, ...groups) {
    return this.each((index) => `${name}(${groups.map((group) => at(group, index)).join(", ")})`);
  }

  add(a, b) {
    return this.call("f32x4.add", a, b);
  }
  sub(a, b) {
    return this.call("f32x4.sub", a, b);
  }
  mul(a, b) {
    return this.call("f32x4.mul", a, b);
  }
  div(a, b) {
    return this.call("f32x4.div", a, b);
  }
  /** a * b + c. */
  madd(a, b, c) {
    return this.each((index) => madd(this.build, at(a, index), at(b, index), at(c, index)));
  }
  /** Horner's rule, highest coefficient first. */
  polynomial(x, coefficients) {
    const [highest, ...others] = coefficients;
    let p = this.constant(highest);
    for (const coefficient of others) p = this.madd(p, x, this.constant(coefficient));
    return p;
  }
  /** `yes` where the mask is set. */
  select(yes, no, mask) {
    return this.call("v128.bitselect", yes, no, mask);
  }
  shift(name, a, bits) {
    return this.each((index) => `i32x4.${name}(${at(a, index)}, ${bits})`);
  }

  text(indent = "    ") {
    return this.#lines.map((line) => indent + line).join("\n");
  }
}

export const at = (group, index) => (Array.isArray(group) ? group[index] : group);

export const madd = (build, a, b, c) => (build.fused ? `f32x4.relaxed_madd(${a}, ${b}, ${c})` : `f32x4.add(f32x4.mul(${a}, ${b}), ${c})`);
