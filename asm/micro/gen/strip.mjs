/** `strip`: one operation over whole groups of 16 f32, with the codes of asm/abi/strip.ts and asm/abi/micro.ts. */
import { Body } from "./emit.mjs";
import * as functions from "./functions.mjs";

const unary = (name) => (body, x) => body.call(name, x);
const binary = (name) => (body, x, y) => body.call(name, x, y);
const relu = (body, x) => body.call("f32x4.pmax", x, body.constant(0));

/** Code -> operands and body. `long` bodies hold so many values that only `build.strip` vectors fit the registers. */
const OPERATIONS = {
  NEG: { operands: 1, write: unary("f32x4.neg") },
  ABS: { operands: 1, write: unary("f32x4.abs") },
  SQRT: { operands: 1, write: unary("f32x4.sqrt") },
  RECIPROCAL: { operands: 1, write: (body, x) => body.div(body.constant(1), x) },
  RSQRT: { operands: 1, write: (body, x) => body.div(body.constant(1), body.call("f32x4.sqrt", x)) },
  RELU: { operands: 1, write: relu },
  EXP: { operands: 1, long: true, write: functions.exp },
  LOG: { operands: 1, long: true, write: functions.log },
  TANH: { operands: 1, long: true, write: functions.tanh },
  SIGMOID: { operands: 1, long: true, write: functions.sigmoid },
  ERF: { operands: 1, long: true, write: functions.erf },
  GELU: { operands: 1, long: true, write: functions.gelu },
  GELU_TANH: { operands: 1, long: true, write: functions.geluTanh },
  SILU: { operands: 1, long: true, write: functions.silu },
  HARD_SWISH: { operands: 1, write: functions.hardSwish },
  ADD: { operands: 2, write: binary("f32x4.add") },
  SUB: { operands: 2, write: binary("f32x4.sub") },
  MUL: { operands: 2, write: binary("f32x4.mul") },
  DIV: { operands: 2, write: binary("f32x4.div") },
  MIN: { operands: 2, write: binary("f32x4.min") },
  MAX: { operands: 2, write: binary("f32x4.max") },
  ADD_RELU: { operands: 2, write: (body, x, y) => relu(body, body.add(x, y)) },
  MUL_RELU: { operands: 2, write: (body, x, y) => relu(body, body.mul(x, y)) },
  PRELU: { operands: 2, write: (body, x, slope) => body.select(body.mul(x, slope), x, body.call("f32x4.lt", x, body.constant(0))) },
  MULADD_RELU: { operands: 3, write: (body, x, y, z) => relu(body, body.madd(x, y, z)) },
  CLIP: { operands: 3, write: (body, x, low, high) => body.call("f32x4.pmin", body.call("f32x4.pmax", x, low), high) },
  MULADD: { operands: 3, write: (body, x, y, z) => body.madd(x, y, z) },
};
/** Codes that only this module knows (asm/abi/micro.ts). */
const OWN = new Set(["GELU", "GELU_TANH", "SILU", "HARD_SWISH", "ADD_RELU", "MUL_RELU", "MULADD_RELU", "PRELU"]);

const functionName = (code) =>
  `strip${code
    .split("_")
    .map((word) => word[0] + word.slice(1).toLowerCase())
    .join("")}`;

/** A splat operand is a pointer that stands still (step 0): its 64 bytes all hold the value. */
function operationSource(build, constants, [code, { operands, long, write }]) {
  const vectors = long ? build.strip : 4;
  const letters = ["a", "b", "c"].slice(0, operands);
  const body = new Body(build, constants, vectors);
  body.store("target", write(body, ...letters.map((letter) => body.load(letter))));
  // Steps are per group of 64 bytes; a body of fewer vectors takes its part of it.
  const step = (letter) => (vectors === 4 ? `${letter}Step` : `(${letter}Step >> ${vectors === 2 ? 1 : 2})`);
  return `
function ${functionName(code)}(target: usize, end: usize, ${letters.map((letter) => `${letter}: usize, ${letter}Step: usize`).join(", ")}): void {
  const table = scratch;
${vectors === 4 ? "" : letters.map((letter) => `  const ${letter}Part = ${step(letter)};\n`).join("")}  while (target < end) {
${body.text()}
${letters.map((letter) => `    ${letter} += ${vectors === 4 ? `${letter}Step` : `${letter}Part`};`).join("\n")}
    target += ${vectors * 16};
  }
}
`;
}

export function stripSource(build, constants) {
  const entries = Object.entries(OPERATIONS);
  const cases = entries.map(([code, { operands }]) => {
    const letters = ["a", "b", "c"].slice(0, operands);
    return `    case ${OWN.has(code) ? "MicroCode" : "StripCode"}.${code}: ${functionName(code)}(target, end, ${letters.map((letter) => `${letter}, ${letter}Step`).join(", ")}); break;`;
  });
  return `${entries.map((entry) => operationSource(build, constants, entry)).join("")}
/**
 * One operation on f32 from \`target\` to \`end\`, whole groups of 64 bytes; the target may be an operand. A step is 64, or 0 for a splat.
 * Returns 0, having done nothing, for a code that has no vector form here.
 */
export function strip(code: u32, target: usize, end: usize, a: usize, aStep: usize, b: usize, bStep: usize, c: usize, cStep: usize): u32 {
  switch (<i32>code) {
${cases.join("\n")}
    default: return 0;
  }
  return 1;
}
`;
}
