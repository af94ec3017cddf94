/** Images: what the encoder writes passes, what is damaged is refused with a typed error, and what is accepted cannot leave its bindings. */
import fs from "node:fs";
import path from "node:path";
import { Instruction as Record, Program } from "../../../dist/asm/abi/program";
import { Frame } from "../../../dist/asm/abi/stream";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { disassemble } from "../../../dist/lib/program/disassemble";
import { encode } from "../../../dist/lib/program/encode";
import { packConv, packMatmul } from "../../../dist/lib/program/pack";
import { verify } from "../../../dist/lib/program/verify";
import type { Blob, Instruction, ProgramPlan, StripValue, View } from "../../../lib/program/types";
import { bytes, core, FREE_ADDRESS, Plan, random, rowMajor, words } from "../kernels/harness";

const DATA_BYTES = 65536;
const ARENA_BYTES = 65536;
const dense = (blob: Blob, dims: readonly number[], offsetBytes = 0): View => ({
  blob,
  dtype: "float32",
  offsetBytes,
  dims,
  strides: rowMajor(dims, 4),
});
const window = { kernel: [2, 2], strides: [1, 1], dilations: [1, 1], padsBegin: [0, 0], padsEnd: [1, 1] };

/** One program with every kind of instruction. */
function everything(): ProgramPlan {
  const data: Blob = { id: 0, name: "data", binding: "data", sizeBytes: DATA_BYTES, offsetBytes: 0 };
  const arena: Blob = { id: 1, name: "arena", binding: "arena", sizeBytes: ARENA_BYTES, offsetBytes: 0 };
  const input = (view: View): StripValue => ({ kind: "input", view, type: "f32" });
  const image = (blob: Blob, c: number, at: number): View => ({
    blob,
    dtype: "float32",
    offsetBytes: at,
    dims: [1, c, 4, 4],
    strides: [64 * c, 4, 16 * c, 4 * c],
  });
  const flag: View = { blob: arena, dtype: "bool", offsetBytes: 60000, dims: [], strides: [] };
  const counter: View = { blob: arena, dtype: "int64", offsetBytes: 60008, dims: [], strides: [] };
  const row: View = { ...dense(data, [8, 20]), strides: [0, 4] };
  const turned: View = { ...dense(data, [8, 20]), strides: [4, 32] };
  const strip = {
    values: [
      input(row),
      input(turned),
      { kind: "constant" as const, type: "f32" as const, value: 3 },
      { kind: "op" as const, op: "add" as const, type: "f32" as const, args: [0, 1] },
      { kind: "op" as const, op: "pow" as const, type: "f32" as const, args: [3, 2] },
    ],
    outputs: [
      { view: dense(arena, [8, 20], 1024), value: 4 },
      { view: { ...dense(arena, [8, 20], 4096), dtype: "int8" as const, strides: [20, 1] }, value: 3 },
    ],
  };
  const regions: Instruction[][] = [
    [
      { op: "copy", node: "copy", target: dense(arena, [20, 8], 8192), source: { ...dense(data, [20, 8]), strides: [4, 80] } },
      { op: "map", node: "map", strip },
      { op: "reduce", node: "reduce", fold: "mean", axes: 1, target: dense(arena, [16], 12288), source: dense(data, [16, 30]) },
      { op: "matmul", node: "matmul", target: dense(arena, [7, 9], 16384), a: dense(data, [7, 5]), b: dense(data, [80], 2048), packed: true },
    ],
    [{ op: "branch", node: "branch", condition: flag, to: 2 }],
    [
      { op: "conv", node: "conv", target: image(arena, 3, 20480), source: image(data, 2, 0), weights: dense(data, [64], 4096), window, groups: 1 },
      { op: "pool", node: "pool", kind: "max", target: image(arena, 4, 24576), source: image(data, 4, 0), window },
    ],
    [{ op: "loop", node: "loop", trip: counter, counter, condition: flag, to: 2 }],
    [{ op: "call", node: "call", to: 5 }],
    [],
  ];
  return { regions, blobs: [data, arena], inputs: 0, outputs: 0, arenaBytes: ARENA_BYTES };
}

const refused = (image: Uint8Array): boolean => {
  try {
    verify(image, [DATA_BYTES, ARENA_BYTES]);
    return false;
  } catch (error) {
    expect(error).toBeInstanceOf(AclError);
    return true;
  }
};

test("the encoder's image passes; its text names what is in it", () => {
  const { image, instructionCount, regionCount, costNs } = encode(everything());
  verify(image, [DATA_BYTES, ARENA_BYTES]);
  expect([instructionCount, regionCount]).toEqual([10, 6]);
  expect(costNs).toBeGreaterThan(0);
  const text = disassemble(image, 0);
  for (const part of [
    "copy",
    "map",
    "reduce mean of 30",
    "matmul k 5 packed",
    "conv kernel 1x2x2",
    "pool max",
    "branch to region 2",
    "loop to region 2",
    "call",
    "pow.f32",
    "periodic.f32 data+0",
    "arena+1024",
  ]) {
    expect(text).toContain(part);
  }
  expect(encode(everything()).image).toEqual(image);
});

test("a map numbers elements as they lie in its result, whatever order its dims have", () => {
  // Dims [channel, row, column] over memory [row, column, channel], with a row of channels that is read for every pixel.
  const arena: Blob = { id: 0, name: "arena", binding: "arena", sizeBytes: ARENA_BYTES, offsetBytes: 0 };
  const dims = [24, 3, 5];
  const view = (offsetBytes: number, strides: number[]): View => ({ blob: arena, dtype: "float32", offsetBytes, dims, strides });
  const image = [4, 5 * 24 * 4, 24 * 4];
  const values: StripValue[] = [
    { kind: "input", view: view(0, image), type: "f32" },
    { kind: "input", view: view(4096, [4, 0, 0]), type: "f32" },
    { kind: "op", op: "mul", type: "f32", args: [0, 1] },
  ];
  const map: Instruction = { op: "map", node: "scale", strip: { values, outputs: [{ view: view(8192, image), value: 2 }] } };
  const text = disassemble(encode({ regions: [[map]], blobs: [arena], inputs: 0, outputs: 0, arenaBytes: ARENA_BYTES }).image, 0);
  expect(text).toContain("periodic.f32 arena+4096");
  expect(text).not.toMatch(/gather|scatter/);
});

test("a binding that is too small is refused", () => {
  const { image } = encode(everything());
  expect(() => verify(image, [2047, ARENA_BYTES])).toThrow(/touches bytes/);
  expect(() => verify(image, [DATA_BYTES, ARENA_BYTES - 1])).toThrow(/arena of 65536 bytes/);
});

test("every truncation is refused", () => {
  const { image } = encode(everything());
  for (let length = 0; length < image.length; length++)
    if (!refused(image.subarray(0, length))) throw new Error(`accepted ${length} of ${image.length} bytes`);
  expect(refused(image)).toBe(false);
});

test("damaged bytes: refused, or harmless when run", () => {
  const { image } = encode(everything());
  const next = random(2024);
  const program = FREE_ADDRESS;
  const frame = program + 65536;
  const data = frame + 65536;
  const arena = data + DATA_BYTES + 4096;
  const scratch = 0x500000;
  let accepted = 0;
  let total = 0;
  for (let round = 0; round < 3000; round++) {
    const damaged = image.slice();
    for (let n = 1 + Math.floor(next() * 2); n > 0; n--)
      damaged[Math.floor(next() * image.length)]! ^= round % 2 ? 1 << Math.floor(next() * 8) : Math.floor(next() * 256);
    total++;
    if (refused(damaged)) continue;
    accepted++;
    bytes.fill(0xa5, data - 4096, arena + ARENA_BYTES + 4096);
    bytes.fill(0, data, data + DATA_BYTES);
    bytes.fill(0, arena, arena + ARENA_BYTES);
    bytes.set(damaged, program);
    words.setUint32(frame + Frame.BASES, data, true);
    words.setUint32(frame + Frame.BASES + 4, arena, true);
    const field = (at: number): number => words.getUint32(program + at, true);
    for (let i = 0; i < field(Program.INSTRUCTION_COUNT); i++) {
      const instruction = program + field(Program.INSTRUCTIONS) + i * Record.SIZE;
      const op = words.getUint8(instruction + Record.OP);
      if (op === 11) continue; // a probe misbehaves on purpose
      for (let tile = 0; tile < Math.min(64, words.getUint32(instruction + Record.TILES, true)); tile++)
        core.executeTile(program, instruction, tile, frame, scratch);
    }
    for (const [from, to] of [
      [data - 4096, data],
      [data + DATA_BYTES, arena],
      [arena + ARENA_BYTES, arena + ARENA_BYTES + 4096],
    ] as const) {
      expect(bytes.subarray(from, to).every((byte) => byte === 0xa5)).toBe(true);
    }
  }
  expect(accepted).toBeGreaterThan(50);
  expect(accepted).toBeLessThan(total);
});

test("random bytes are refused", () => {
  const next = random(7);
  for (let i = 0; i < 500; i++) {
    const noise = Uint8Array.from({ length: Math.floor(next() * 600) }, () => Math.floor(next() * 256));
    if (i % 2 && noise.length >= 64) {
      noise.set(encode(everything()).image.subarray(0, 8));
      new DataView(noise.buffer).setUint32(8, noise.length, true);
    }
    expect(refused(noise)).toBe(true);
  }
});

test("control flow: a loop counts, a branch skips, a call returns", () => {
  const plan = new Plan();
  const trip = plan.input("int64", [], [5n]);
  const counter = plan.output("int64", [], [0n]);
  const zero = plan.input("bool", [], [0]);
  const total = plan.output("float32", [4], [0, 0, 0, 0]);
  const add = (value: number): Instruction => ({
    op: "map",
    node: `add ${value}`,
    strip: {
      values: [
        { kind: "input", view: total, type: "f32" },
        { kind: "constant", type: "f32", value },
        { kind: "op", op: "add", type: "f32", args: [0, 1] },
      ],
      outputs: [{ view: total, value: 2 }],
    },
  });
  const read = plan.run([
    add(1),
    { op: "loop", node: "loop", trip, counter, to: 0 },
    { op: "branch", node: "skip", condition: zero, to: 4 },
    add(1000),
    { op: "call", node: "call", to: 7 },
    { op: "branch", node: "end", to: 9 },
    add(2000),
    add(10),
    { op: "return", node: "return" },
  ]);
  expect(read(total)).toEqual([15, 15, 15, 15]);
  expect(read(counter)).toEqual([5n]);
});

test("packing: panels of eight columns, tap-major weights", () => {
  expect([...packMatmul(Float32Array.from([1, 2, 3, 4, 5, 6]), 2, 3)]).toEqual([1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0]);
  expect([...packConv(Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8]), [2, 1, 2, 2], 2)]).toEqual([1, 5, 2, 6, 3, 7, 4, 8]);
  const packed = packConv(Float32Array.from([1, 2, 3, 4]), [1, 2, 2], 1);
  expect([0, 8, 16, 24].map((at) => packed[at])).toEqual([1, 3, 2, 4]);
});

test("the core has no data segment", () => {
  const text = fs.readFileSync(path.join(__dirname, "../../../dist/asm/core.wat"), "utf8");
  expect(text).toContain("(func $asm/core/interpreter/executeTile");
  expect(text).not.toMatch(/\(data/);
});

test("packing: weights may start at any byte, and subnormal ones become zeros", () => {
  const weights = Float32Array.from({ length: 40 * 700 }, (_, i) => (i % 7 === 3 ? 1e-39 : Math.sin(i)));
  const bytes = new Uint8Array(new SharedArrayBuffer(weights.byteLength + 3));
  bytes.set(new Uint8Array(weights.buffer), 3);
  const [k, n, panel] = [40, 700, 16];
  for (const transposed of [false, true]) {
    const packed = packMatmul(bytes.subarray(3), k, n, panel, transposed);
    expect(packed.length).toBe(Math.ceil(n / panel) * panel * k);
    let wrong = 0;
    for (let row = 0; row < k; row++) {
      for (let column = 0; column < Math.ceil(n / panel) * panel; column++) {
        const i = transposed ? column * k + row : row * n + column;
        const expected = column < n && i % 7 !== 3 ? weights[i] : 0;
        wrong += Number(packed[(Math.floor(column / panel) * k + row) * panel + (column % panel)] !== expected);
      }
    }
    expect(wrong).toBe(0);
  }
});
