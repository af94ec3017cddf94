/**
 * Models damaged at random, at the level of bytes and of fields: each gives a typed error or a model that compiles, in bounded time; what compiles
 * runs without a trap, and the device still computes what it did before. NPURT_LONG=1 makes 20,000 of them.
 */
import fs from "node:fs";
import { Device, Tensor, type Results } from "npurt";
import { compileModel } from "../../dist/lib/compile/pipeline";
import { AclError } from "../../dist/lib/errors/acl-error";
import { allOps } from "../../dist/lib/ops/registry";
import { executorOf } from "../conformance/programs";
import { sampleModel } from "../ops/samples";

const LONG = process.env["NPURT_LONG"] === "1";
const COUNT = Number(process.env["NPURT_MUTATIONS"] ?? (LONG ? 20_000 : 600));
const SEED = Number(process.env["NPURT_SEED"] ?? 20_261);
/** What a kernel or our own assumption ends with: no model may lead there. */
const OURS = new Set([507000, 507014, 507015, 507042, 507043, 500000, 500001]);
/** Indices are data: what is wrong with them shows when the model runs. */
const isIndexError = ({ code, message }: AclError): boolean => code === 507015 && message.includes("met an index out of range");
const RUN_BYTES = 16 * 2 ** 20;
const RUN_NS = 20e6;
/** Processor time far beyond what the largest result that the compiler folds takes (30 s in a test runner, 1.2 outside): this finds what never ends. */
const LIMIT_MS = 120_000;

let state = SEED;
const below = (limit: number): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
};

/** One damage; most are near the ends, where names, attributes and dims stand. */
function damage(bytes: Uint8Array): Uint8Array {
  const at = below(bytes.length);
  const some = 1 + below(12);
  const kinds: readonly (() => Uint8Array)[] = [
    () => bytes.with(at, [below(256), 0xff, 0x7f, 0x80, 0, bytes[at]! + 1, bytes[at]! ^ (1 << below(8))][below(7)]! & 255),
    () => bytes.with(at, [below(256), 1, 2, 3, 4, 7, 9][below(7)]!),
    () => Uint8Array.of(...bytes.subarray(0, at), ...bytes.subarray(Math.min(bytes.length, at + some))),
    () => Uint8Array.of(...bytes.subarray(0, at), ...Array.from({ length: some }, () => [below(256), 0xff, 0x7f][below(3)]!), ...bytes.subarray(at)),
    () => Uint8Array.of(...bytes.subarray(0, at), ...bytes.subarray(below(at + 1), at), ...bytes.subarray(at)),
    () => bytes.slice(0, at),
    () => Uint8Array.of(...bytes.subarray(0, at), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, ...bytes.subarray(at + 1)),
  ];
  // Mostly single bytes: they leave a message that is one.
  return kinds[below(3) > 0 ? below(2) : below(kinds.length)]!();
}

/** Samples of every operator, and the example's model. */
function corpus(): Uint8Array[] {
  const samples = allOps().flatMap((op) => op.samples.filter((sample) => !sample.rejects).map((sample) => sampleModel(op, sample).bytes));
  return [new Uint8Array(fs.readFileSync("examples/digits/digits.onnx")), ...samples.filter(({ length }) => length < 4096)];
}

const report = (bytes: Uint8Array, error: unknown): Error =>
  new Error(`a damaged model (base64 ${Buffer.from(bytes).toString("base64").slice(0, 6000)}): ${String((error as Error)?.stack ?? error)}`);

/** Runs `bytes` on zeros if it compiles and is small. Throws what is not typed, and what no model may cause. */
async function attempt(device: Device, bytes: Uint8Array): Promise<"refused" | "compiled" | "ran"> {
  try {
    const result = compileModel(bytes);
    const { inputs, outputs, arenaBytes, costNs } = result.program;
    const sizeBytes = [...inputs, ...outputs].reduce((sum, port) => sum + port.sizeBytes, arenaBytes + result.dataBytes);
    if (sizeBytes > RUN_BYTES || costNs > RUN_NS) return "compiled";
    const executor = executorOf(device, result);
    try {
      await executor.run(Object.fromEntries(inputs.map(({ name, dtype, dims }) => [name, Tensor.zeros(dtype, dims)])));
    } finally {
      executor.dispose();
    }
    return "ran";
  } catch (error) {
    if (!(error instanceof AclError) || (OURS.has(error.code) && !isIndexError(error))) throw report(bytes, error);
    return "refused";
  }
}

test(`${COUNT} damaged models`, async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 256 * 2 ** 20 });
  const models = corpus();
  const good = compileModel(models[0]!, { shapes: { image: [1, 1, 28, 28] } });
  const digits = executorOf(device, good);
  const image = new Tensor(
    "float32",
    [1, 1, 28, 28],
    Float32Array.from({ length: 784 }, (_, i) => (i % 29) / 29),
  );
  const answer = async (): Promise<Uint8Array> => {
    const results: Results = await digits.run({ [digits.inputs[0]!.name]: image });
    return new Uint8Array(Object.values(results)[0]!.data.buffer.slice(0));
  };
  const expected = await answer();
  await attempt(device, models[0]!); // brings a second run stream, which stays
  const { allocations } = device.info();
  const ends = { refused: 0, compiled: 0, ran: 0 };
  for (let i = 0; i < COUNT; i++) {
    let bytes = models[below(40) === 0 ? 0 : below(models.length)]!;
    for (let times = below(4); times >= 0 && bytes.length > 0; times--) bytes = damage(bytes);
    const since = process.cpuUsage();
    ends[await attempt(device, bytes)]++;
    const spent = process.cpuUsage(since);
    const ms = (spent.user + spent.system) / 1000;
    if (ms > LIMIT_MS) throw report(bytes, new Error(`took ${ms} ms of a processor`));
    if (i % 100 === 99) expect(Buffer.compare(await answer(), expected)).toBe(0);
  }
  expect(device.info().allocations).toBe(allocations);
  expect(Math.min(ends.refused, ends.ran)).toBeGreaterThan(COUNT / 20); // both happen often, or the damage is of no use
  await device.close();
}, 3_600_000);
