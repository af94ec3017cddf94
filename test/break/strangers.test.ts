/** What is no model, no handle, no array any more, no number of 64 bits; and processes that may not have threads, addons or WebAssembly. */
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";
import * as npurt from "npurt";
import { AclError, Device, Executor, Kernel, pickDevice, Tensor } from "npurt";
import { InferenceSession, Tensor as OrtTensor } from "../../dist/lib/ort/ort";

const DIGITS = path.resolve(__dirname, "../../examples/digits/digits.onnx");
const SHAPES = { image: [1, 1, 28, 28] };
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-strangers-"));
let device: Device;
beforeAll(async () => {
  device = await Device.open({ cores: 1, memoryBytes: 64 * 2 ** 20 });
});
afterAll(async () => {
  await device.close();
  fs.rmSync(folder, { recursive: true });
});

function codeOf(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error instanceof AclError ? error.code : error;
  }
  return 0;
}

describe("models", () => {
  const model = fs.readFileSync(DIGITS);
  const headed = (head: string): Buffer => Buffer.concat([Buffer.from(head, "latin1"), Buffer.alloc(100)]);
  test.each([
    ["gzip", zlib.gzipSync(model), /gzip/],
    ["zip", headed("PK\x03\x04"), /zip/],
    ["a pointer of Git LFS", Buffer.from("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), /git lfs pull/],
    ["a page", Buffer.from("\n<!DOCTYPE html><html>404</html>"), /page/],
    ["onnxruntime's format", headed("\x18\0\0\0ORTM"), /onnxruntime/],
    ["TensorFlow Lite", headed("\x1c\0\0\0TFL3"), /TensorFlow Lite/],
    ["half a model", model.subarray(0, model.length / 2), /cut off/],
  ])("%s is called what it is", async (_, bytes, text) => {
    await expect(Executor.load(bytes, { device })).rejects.toMatchObject({ code: 100006, message: expect.stringMatching(text) });
  });

  test("pipes, devices and folders are refused, not waited for", async () => {
    const pipe = path.join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    for (const file of [pipe, "/dev/zero", "/dev/null", folder]) {
      await expect(Executor.load(file, { device })).rejects.toMatchObject({ code: 100003, message: expect.stringContaining(file) });
      await expect(InferenceSession.create(file)).rejects.toMatchObject({ code: 100003 });
      await expect(Kernel.load(device, file)).rejects.toMatchObject({ code: 107009 });
    }
  });

  test("a file URL is a path; other URLs are refused", async () => {
    const executor = await Executor.load(pathToFileURL(DIGITS), { device, shapes: SHAPES });
    expect(executor.inputs).toHaveLength(1);
    executor.dispose();
    for (const url of ["https://example.org/model.onnx", new URL("https://example.org/model.onnx")]) {
      await expect(Executor.load(url, { device })).rejects.toMatchObject({ code: 100003, message: expect.stringMatching(/download/) });
    }
  });
});

test.each([
  "Device",
  "Executor",
  "Stream",
  "Event",
  "Context",
  "DeviceBuffer",
  "HostBuffer",
  "Kernel",
  "KernelFunction",
  "Notify",
  "PreparedRun",
] as const)("new %s says who makes one", (name) => {
  const Handle = npurt[name] as unknown as new (...args: unknown[]) => unknown;
  for (const args of [[], [{}], [device], [null], [device, 64]]) {
    expect(codeOf(() => new Handle(...args))).toBe(107000);
  }
});

test("a session that nobody created, and a feed with a slip in its name", async () => {
  const Session = InferenceSession as unknown as new (...args: unknown[]) => unknown;
  expect(codeOf(() => new Session(DIGITS))).toBe(107000);
  const session = await InferenceSession.create(DIGITS, { executionProviders: [{ name: "npurt", device }] as never });
  const image = new OrtTensor("float32", new Float32Array(784), [1, 1, 28, 28]);
  await expect(session.run({ imgae: image })).rejects.toMatchObject({ code: 100017, message: expect.stringMatching(/"image" is missing.*"imgae"/) });
  await expect(session.run({ image, other: image })).resolves.toBeDefined();
  await session.release();
});

test("arrays whose buffer shrank are told from empty ones", async () => {
  const executor = await Executor.load(DIGITS, { device, shapes: SHAPES });
  const stream = device.createStream();
  const target = device.allocate(64);
  const shrunk = (): ArrayBuffer => {
    // biome-ignore lint/suspicious/noExplicitAny: resizable buffers are younger than the types
    const buffer = new (ArrayBuffer as any)(784 * 4, { maxByteLength: 784 * 4 });
    views = [new Float32Array(buffer, 0, 784), new Uint8Array(buffer, 64, 64), new DataView(buffer, 0, 64)];
    buffer.resize(8);
    return buffer;
  };
  let views: [Float32Array, Uint8Array, DataView] = [] as never;
  shrunk();
  await expect(executor.run({ image: views[0] })).rejects.toMatchObject({ code: 100017, message: expect.stringMatching(/image/) });
  for (const view of views) {
    expect(codeOf(() => stream.memcpy(target, view))).toBe(107000);
    expect(codeOf(() => stream.memcpy(view, target))).toBe(107000);
  }
  expect(codeOf(() => stream.memcpy(target, new Uint8Array(0)))).toBe(0);
  await stream.destroy();
  target.dispose();
  executor.dispose();
});

test("values that do not fit into 64 bits, and values that are missing", async () => {
  const stream = device.createStream();
  const word = device.allocate(64);
  for (const value of [2n ** 64n, -(2n ** 63n) - 1n, 2n ** 200n, 1, undefined, "1"]) {
    expect(codeOf(() => stream.writeValue(word, value as bigint))).toBe(107000);
    expect(codeOf(() => stream.waitValue(word, value as bigint))).toBe(107000);
  }
  const back = new BigUint64Array(2);
  stream.writeValue(word, 2n ** 64n - 1n);
  stream.writeValue(word.address + 8, -(2n ** 63n));
  stream.memcpy(back, word, 16);
  await stream.synchronize();
  expect([...back]).toEqual([2n ** 64n - 1n, 2n ** 63n]);
  expect(codeOf(() => stream.memset(word, undefined as never))).toBe(107000);
  expect(codeOf(() => stream.fill(word, undefined as never, 4))).toBe(107000);
  expect(codeOf(() => stream.nop(2 ** 31))).toBe(107000);
  for (const name of ["constructor", "toString", "__proto__"]) {
    expect(codeOf(() => stream.waitValue(word, 0n, { compare: name as never }))).toBe(107000);
    expect(codeOf(() => pickDevice([device], { policy: name as never }))).toBe(107000);
  }
  await stream.destroy();
  word.dispose();
});

test("texts name a bigint, a near dtype, and what was fed instead of a tensor", async () => {
  expect(() => device.allocate(10n as never)).toThrow(/10n/);
  expect(() => new Tensor("float" as never, [1], new Float32Array(1))).toThrow(
    /did you mean "float16"|did you mean "float32"|did you mean "float64"/,
  );
  const executor = await Executor.load(DIGITS, { device, shapes: SHAPES });
  await expect(executor.run({ image: [0] as never })).rejects.toThrow(/not an object \(Array\)/);
  executor.dispose();
});

describe("processes that may not do everything", () => {
  const entry = JSON.stringify(path.resolve(__dirname, "../../dist/lib/index.js"));
  const permission = process.allowedNodeEnvironmentFlags.has("--permission") ? "--permission" : "--experimental-permission";
  function child(flags: readonly string[], body: string): { status: number | null; out: string } {
    const script = `const { Device, Executor, Tensor } = require(${entry}); (async () => { ${body} })().catch((error) => console.log("raw", error));`;
    const { status, stdout } = spawnSync(process.execPath, [...flags, "-e", script], { encoding: "utf8", timeout: 30_000 });
    return { status, out: stdout.trim() };
  }
  const LATER = `await new Promise((resolve) => setTimeout(resolve, 300));`;

  test("without threads: cores that cannot start lose the device, not the process; inline works", () => {
    const flags = [permission, "--allow-fs-read=*"];
    const threads = `const device = await Device.open({ cores: 1 }); ${LATER}
      await device.ready().catch((error) => console.log(error.code, /allow-worker/.test(error.message)));
      try { device.allocate(64); } catch (error) { console.log(error.code); }`;
    expect(child(flags, threads)).toEqual({ status: 0, out: "507899 true\n507899" });
    const inline = `const device = await Device.open({ driver: "inline" });
      const executor = await Executor.load(${JSON.stringify(DIGITS)}, { device, shapes: { image: [1, 1, 28, 28] } });
      console.log((await executor.run({ image: new Float32Array(784) })).probability.data.length); await device.close();`;
    expect(child(flags, inline)).toEqual({ status: 0, out: "10" });
  });

  test("without WebAssembly", () => {
    expect(child(["--jitless"], `await Device.open().catch((error) => console.log(error.code, /jitless/.test(error.message)));`)).toEqual({
      status: 0,
      out: "507033 true",
    });
  });

  test("without addons nothing is said about them", () => {
    const script = `require(${entry}).Device.open({ driver: "inline" }).then((device) => device.close())`;
    const { status, stderr } = spawnSync(process.execPath, ["--no-addons", "-e", script], { encoding: "utf8", timeout: 30_000 });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });
});
