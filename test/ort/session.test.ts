/** InferenceSession of npurt/ort: ways to create one, feeds, fetches, options, several at once, the end of one. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Device } from "npurt";
import { env, InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { codeOf, sums } from "./harness";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-ort-"));
const file = path.join(folder, "sums.onnx");
let device: Device;
let session: InferenceSession;

const f32 = (values: readonly number[], dims: readonly number[] = [values.length / 2, 2]) => new Tensor("float32", values, dims);
const feeds = () => ({ a: f32([1, 2, 3, 4]), b: f32([10, 20, 30, 40]) });
const SUM = Float32Array.of(11, 22, 33, 44);
const DIFFERENCE = Float32Array.of(-9, -18, -27, -36);
/** A call that the types refuse, as plain JavaScript makes it. */
const run = (...args: unknown[]): Promise<InferenceSession.ReturnType> => (session.run as (...args: unknown[]) => never)(...args);
const create = (...args: unknown[]): Promise<InferenceSession> => (InferenceSession.create as (...args: unknown[]) => never)(...args);

beforeAll(async () => {
  fs.writeFileSync(file, sums());
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20, trace: true });
  session = await InferenceSession.create(sums());
});
afterAll(async () => {
  await device.close();
  fs.rmSync(folder, { recursive: true });
});

describe("create", () => {
  const padded = (before: number, after: number): ArrayBuffer => {
    const bytes = sums();
    const buffer = new ArrayBuffer(before + bytes.length + after);
    new Uint8Array(buffer).set(bytes, before);
    return buffer;
  };

  test.each([
    ["a path", () => [file]],
    ["bytes and options", () => [sums(), { executionProviders: ["cpu"], graphOptimizationLevel: "all" }]],
    ["a Buffer", () => [fs.readFileSync(file)]],
    ["an ArrayBuffer", () => [padded(0, 0), {}]],
    ["an ArrayBuffer from an offset", () => [padded(8, 0), 8]],
    ["an ArrayBuffer, offset and length", () => [padded(8, 5), 8, sums().length]],
    ["an ArrayBuffer, offset, length and options", () => [padded(8, 5), 8, sums().length, { logId: "x" }]],
  ] as [string, () => unknown[]][])("from %s", async (_, args) => {
    const made = await create(...args());
    expect((await made.run(feeds()))["sum"]!.data).toEqual(SUM);
    await made.release();
  });

  test("every documented option is accepted", async () => {
    const made = await InferenceSession.create(file, {
      executionProviders: ["wasm", { name: "cuda" }, { name: "npurt", device, frames: 2, programs: 3 }],
      intraOpNumThreads: 2,
      interOpNumThreads: 1,
      freeDimensionOverrides: { n: 2 },
      graphOptimizationLevel: "extended",
      enableCpuMemArena: true,
      enableMemPattern: false,
      executionMode: "parallel",
      logId: "id",
      logSeverityLevel: 3,
      logVerbosityLevel: 0,
      preferredOutputLocation: { sum: "cpu" },
      enableGraphCapture: false,
      externalData: [],
      extra: { session: { any: "thing" } },
    });
    expect(made.inputMetadata[0]).toEqual({ name: "a", isTensor: true, type: "float32", shape: [2, 2] });
    expect((await made.run(feeds()))["difference"]!.data).toEqual(DIFFERENCE);
    await made.release();
  });

  test.each([
    ["nothing", [], 107000],
    ["a number", [7], 107000],
    ["a path that leads nowhere", [path.join(folder, "none.onnx")], 100003],
    ["bytes that are no model", [Uint8Array.of(1, 2, 3)], 100006],
    ["an offset beyond the buffer", [new ArrayBuffer(4), 5], 107000],
    ["options that are no object", [new Uint8Array(4), "fast"], 107000],
    ["an unknown option", [new Uint8Array(4), { executionProvider: ["cpu"] }], 107000],
    ["providers that are no list", [new Uint8Array(4), { executionProviders: "cpu" }], 107000],
    ["a provider without a name", [new Uint8Array(4), { executionProviders: [{}] }], 107000],
    ["a misspelled option of our provider", [new Uint8Array(4), { executionProviders: [{ name: "npurt", devise: 1 }] }], 107000],
    ["a device that is none", [new Uint8Array(4), { executionProviders: [{ name: "npurt", device: 3 }] }], 107000],
    ["an unknown level", [new Uint8Array(4), { graphOptimizationLevel: "most" }], 107000],
    ["threads below zero", [new Uint8Array(4), { intraOpNumThreads: -1 }], 107000],
    ["an optimised file to write", [new Uint8Array(4), { optimizedModelFilePath: "x.onnx" }], 207000],
    ["results on a GPU", [new Uint8Array(4), { preferredOutputLocation: "gpu-buffer" }], 207000],
    ["external data in memory", [new Uint8Array(4), { externalData: [{ path: "w", data: new Uint8Array(4) }] }], 207000],
    ["a size for a dim that is not there", [sums(), { freeDimensionOverrides: { m: 2 } }], 107000],
  ] as [string, unknown[], number][])("refuses %s", async (_, args, code) => {
    expect(await codeOf(create(...args))).toBe(code);
  });
});

test("names and metadata are the model's", () => {
  expect([session.inputNames, session.outputNames]).toEqual([
    ["a", "b"],
    ["sum", "difference"],
  ]);
  expect(session.inputMetadata).toEqual(["a", "b"].map((name) => ({ name, isTensor: true, type: "float32", shape: ["n", 2] })));
  expect(session.outputMetadata.map(({ name }) => name)).toEqual(["sum", "difference"]);
  expect(env.versions.common).toMatch(/^\d+\.\d+\.\d+$/);
});

test("results are tensors of their own", async () => {
  const [first, second] = [await session.run(feeds()), await session.run({ a: f32([0, 0]), b: f32([1, 1]) })];
  expect(first["sum"]).toBeInstanceOf(Tensor);
  expect([first["sum"]!.type, first["sum"]!.dims, first["sum"]!.data]).toEqual(["float32", [2, 2], SUM]);
  expect([second["sum"]!.dims, second["sum"]!.data]).toEqual([[1, 2], Float32Array.of(1, 1)]);
});

test("anything with type, data and dims is a feed", async () => {
  const foreign = { type: "float32" as const, data: Float32Array.of(1, 2, 3, 4), dims: [2, 2] };
  expect((await session.run({ a: foreign, b: f32([0, 0, 0, 0]) }))["sum"]!.data).toEqual(foreign.data);
});

test("what is no input is ignored, as onnxruntime does", async () => {
  expect((await run({ ...feeds(), c: "anything" }))["sum"]!.data).toEqual(SUM);
});

test.each([
  ["a feed is missing", () => [{ a: f32([1, 2]) }], 100017],
  ["a feed is undefined", () => [{ a: f32([1, 2]), b: undefined }], 100017],
  ["a feed has another type", () => [{ ...feeds(), b: new Tensor("int32", [1, 2, 3, 4], [2, 2]) }], 100017],
  ["a feed has another rank", () => [{ ...feeds(), b: f32([1, 2, 3, 4], [4]) }], 100017],
  ["feeds disagree about a dim", () => [{ a: f32([1, 2, 3, 4]), b: f32([1, 2]) }], 100017],
  ["a feed is a bare number", () => [{ ...feeds(), b: 1 }], 107000],
  ["a feed is a string tensor", () => [{ ...feeds(), b: new Tensor(["x"]) }], 207000],
  ["feeds are no object", () => [undefined], 100017],
  ["feeds are one tensor", () => [f32([1, 2])], 100017],
  ["a fetch is no output", () => [feeds(), ["total"]], 100018],
  ["no fetch is named", () => [feeds(), []], 100018],
  ["fetches are a number", () => [feeds(), 3], 107000],
  ["a tensor to fill has other dims", () => [feeds(), { sum: f32([1, 2]), difference: null }], 100018],
  ["all tensors to fill are there, one with other dims", () => [feeds(), { sum: f32([1, 2]), difference: f32([1, 2, 3, 4]) }], 100018],
  ["an option is unknown", () => [feeds(), { terminat: true }], 107000],
  ["terminate is set", () => [feeds(), { terminate: true }], 107035],
] as [string, () => unknown[], number][])("run rejects if %s, and the session still works", async (_, args, code) => {
  expect(await codeOf(run(...args()))).toBe(code);
  expect((await session.run(feeds()))["sum"]!.data).toEqual(SUM);
});

describe("fetches", () => {
  test("by name: only these are returned", async () => {
    const results = await session.run(feeds(), ["difference"]);
    expect(Object.keys(results)).toEqual(["difference"]);
    expect(results["difference"]!.data).toEqual(DIFFERENCE);
  });

  test("null stands for a new tensor, and options may follow", async () => {
    const results = await session.run(feeds(), { sum: null }, { tag: "t", logSeverityLevel: 0 });
    expect(Object.keys(results)).toEqual(["sum"]);
    expect(results["sum"]!.data).toEqual(SUM);
  });

  test("tensors of the caller are filled and returned, all or some", async () => {
    const [sum, difference] = [f32([0, 0, 0, 0]), f32([0, 0, 0, 0])];
    const all = await session.run(feeds(), { sum, difference });
    expect([all["sum"], all["difference"]]).toEqual([sum, difference]);
    expect([sum.data, difference.data]).toEqual([SUM, DIFFERENCE]);
    const again = f32([0, 0, 0, 0]);
    const some = await session.run(feeds(), { sum: again });
    expect(some["sum"]).toBe(again);
    expect(again.data).toEqual(SUM);
  });

  test("an object without outputs is options", async () => {
    expect(Object.keys(await session.run(feeds(), { tag: "t" }))).toEqual(["sum", "difference"]);
  });
});

test("two sessions, many runs of each in flight", async () => {
  const other = await InferenceSession.create(file, { executionProviders: [{ name: "npurt", device, frames: 2 }] });
  const runs = Array.from({ length: 40 }, async (_, i) => {
    const results = await (i % 2 === 0 ? session : other).run({ a: f32([i, 0]), b: f32([1, 1]) });
    return results["sum"]!.data[0];
  });
  expect(await Promise.all(runs)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
  await other.release();
  expect((await session.run(feeds()))["sum"]!.data).toEqual(SUM);
});

test("release may be called twice; what is in flight ends well; after it nothing runs", async () => {
  const made = await InferenceSession.create(file);
  const last = made.run(feeds());
  await made.release();
  await made.release();
  expect((await last)["sum"]!.data).toEqual(SUM);
  expect(await codeOf(made.run(feeds()))).toBe(107017);
});

test("a signal gives a run up: before it starts, and while it runs", async () => {
  expect(await codeOf(session.run(feeds(), { signal: AbortSignal.abort() }))).toBe(107035);
  const controller = new AbortController();
  const running = Promise.allSettled(Array.from({ length: 8 }, () => session.run(feeds(), { signal: controller.signal })));
  controller.abort();
  for (const result of await running) {
    if (result.status === "rejected") expect(result.reason).toMatchObject({ code: 107035 });
    else expect(result.value["sum"]!.data).toEqual(SUM);
  }
  expect((await session.run(feeds(), { signal: new AbortController().signal }))["sum"]!.data).toEqual(SUM);
});

test("profiling writes the timeline of a device that traces, and is refused by others", async () => {
  const prefix = path.join(folder, "profile");
  const made = await InferenceSession.create(file, { enableProfiling: true, profileFilePrefix: prefix });
  made.startProfiling();
  await made.run(feeds());
  made.endProfiling();
  await made.release();
  const [written] = fs.readdirSync(folder).filter((name) => name.startsWith("profile_"));
  const { traceEvents } = JSON.parse(fs.readFileSync(path.join(folder, written!), "utf8")) as { traceEvents: unknown[] };
  expect(traceEvents.length).toBeGreaterThan(0);
  const silent = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const provider = { name: "npurt" as const, device: silent };
  expect(await codeOf(InferenceSession.create(file, { enableProfiling: true, executionProviders: [provider] }))).toBe(207000);
  await silent.close();
});
