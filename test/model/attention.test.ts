/**
 * A layer of attention over a long sequence: no matrix of scores in memory, the same bits on every driver and number of cores, and the numbers of its
 * parts and of onnxruntime-node (in its own process, if it is in bench/peers).
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Device, type DeviceOptions, Executor, Tensor } from "../../dist/lib/index";
import { runPipeline } from "../../dist/lib/compile/pipeline";
import { noise } from "../../dist/lib/ops/sample";
import { tensor } from "../../dist/lib/graph/tensor";
import { model } from "../ops/models";
import { PEERS } from "./files";

const [HEADS, SIZE] = [3, 20];

/** Heads of x attend to each other, with a mask over keys, as PyTorch exports it. */
function layer(length: number): Uint8Array {
  const width = HEADS * SIZE;
  const ints = (...numbers: readonly number[]) => tensor("int64", [numbers.length], numbers.map(BigInt));
  const n = (op: string, inputs: readonly string[], output: string, attributes: Record<string, bigint | readonly bigint[]> = {}) => ({
    op,
    name: output,
    inputs,
    outputs: [output],
    attributes,
  });
  const heads = (name: string, perm: readonly bigint[]) => [
    n("MatMul", ["x", `w${name}`], `${name}0`),
    n("Reshape", [`${name}0`, "split"], `${name}1`),
    n("Transpose", [`${name}1`], name, { perm }),
  ];
  return model({
    nodes: [
      ...heads("q", [0n, 2n, 1n, 3n]),
      ...heads("k", [0n, 2n, 3n, 1n]),
      ...heads("v", [0n, 2n, 1n, 3n]),
      n("MatMul", ["q", "k"], "product"),
      n("Div", ["product", "root"], "scaled"),
      n("Add", ["scaled", "mask"], "scores"),
      n("Softmax", ["scores"], "weights", { axis: -1n }),
      n("MatMul", ["weights", "v"], "mixed"),
      n("Transpose", ["mixed"], "turned", { perm: [0n, 2n, 1n, 3n] }),
      n("Reshape", ["turned", "joined"], "y"),
    ],
    inputs: [
      { name: "x", dims: [1, length, width] },
      { name: "mask", dims: [1, 1, 1, length] },
    ],
    outputs: [{ name: "y" }],
    constants: {
      ...Object.fromEntries(["wq", "wk", "wv"].map((name, i) => [name, { ...noise([width, width], i + 1), asConstant: true }])),
      split: ints(1, length, HEADS, SIZE),
      joined: ints(1, length, width),
      root: tensor("float32", [], [Math.sqrt(SIZE)]),
    },
  });
}

const LENGTH = 601;
const bytes = layer(LENGTH);
const floats = (dims: readonly number[], seed: number): Float32Array => Float32Array.from(noise(dims, seed).data as Float64Array);
const x = floats([1, LENGTH, HEADS * SIZE], 7);
/** The last tenth of the keys is padding. */
const mask = Float32Array.from({ length: LENGTH }, (_, i) => (i < LENGTH * 0.9 ? 0 : -3.4028234663852886e38));

async function run(options: DeviceOptions, disable: readonly string[] = []): Promise<Float32Array> {
  const device = await Device.open({ ...options, memoryBytes: 2 ** 26 });
  try {
    const executor = await Executor.load(bytes, { device, disable });
    const { y } = await executor.run({
      x: new Tensor("float32", [1, LENGTH, HEADS * SIZE], x),
      mask: new Tensor("float32", [1, 1, 1, LENGTH], mask),
    });
    return Float32Array.from(y!.data as Float32Array);
  } finally {
    await device.close();
  }
}

/** Largest distance, in parts of the largest number that is wanted. */
function worstOf(got: ArrayLike<number>, want: ArrayLike<number>): number {
  const amplitude = Array.from(want).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return (
    Array.from(want).reduce((most, value, i) => Math.max(most, Math.abs(value - got[i]!)), got.length === want.length ? 0 : Number.NaN) / amplitude
  );
}

test("a sequence of 2,048 needs memory for its heads and not for their scores", () => {
  const long = layer(2048);
  const peak = (disable: readonly string[]): number => runPipeline(long, { disable }).plan!.arenaBytes;
  // Q, K and V; the parts have the scores of all heads besides.
  const heads = 3 * 2048 * HEADS * SIZE * 4;
  expect(peak([])).toBe(heads);
  expect(peak(["patterns"])).toBeGreaterThanOrEqual(heads + HEADS * 2048 * 2048 * 4 - 2048 * HEADS * SIZE * 4);
});

describe("one layer", () => {
  let first: Float32Array;
  beforeAll(async () => {
    first = await run({ driver: "inline" });
  });

  test.each([
    [{ driver: "sim", cores: 1 }],
    [{ driver: "sim", cores: 2, seed: 5 }],
    [{ driver: "threads", cores: 1 }],
    [{ driver: "threads", cores: 2, helpBelowNs: 0 }],
    [{ driver: "threads", cores: 4 }],
  ] as const)("the same bits on %j", async (options) => {
    expect(Buffer.compare(Buffer.from((await run(options)).buffer), Buffer.from(first.buffer))).toBe(0);
  });

  test("the parts", async () => {
    expect(worstOf(first, await run({ driver: "inline" }, ["patterns"]))).toBeLessThan(1e-5);
  });

  test("onnxruntime-node", () => {
    if (!fs.existsSync(path.join(PEERS, "node_modules/onnxruntime-node"))) {
      console.log("skipped: onnxruntime-node is not in bench/peers");
      return;
    }
    const folder = fs.mkdtempSync(path.join(require("node:os").tmpdir(), "npurt-attention-"));
    try {
      const at = (name: string): string => path.join(folder, name);
      fs.writeFileSync(at("layer.onnx"), bytes);
      fs.writeFileSync(at("x"), x);
      fs.writeFileSync(at("mask"), mask);
      const body = `
        const { InferenceSession, Tensor } = require(${JSON.stringify(path.join(PEERS, "node_modules/onnxruntime-node"))});
        const fs = require("node:fs");
        const floats = (name) => { const data = fs.readFileSync(name); return new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length)); };
        (async () => {
          const session = await InferenceSession.create("layer.onnx");
          const { y } = await session.run({ x: new Tensor("float32", floats("x"), [1, ${LENGTH}, ${HEADS * SIZE}]), mask: new Tensor("float32", floats("mask"), [1, 1, 1, ${LENGTH}]) });
          fs.writeFileSync("y", y.data);
        })();`;
      execFileSync(process.execPath, ["-e", body], { cwd: folder });
      const data = fs.readFileSync(at("y"));
      const want = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
      expect(worstOf(first, want)).toBeLessThan(1e-5);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });
});
