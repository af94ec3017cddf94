/** Whatever is passed where something else belongs is an AclError, and the device works as before. */
import { AclError, Device, Executor, Stream, Tensor } from "npurt";

const DIGITS = "examples/digits/digits.onnx";
// biome-ignore lint/suspicious/noExplicitAny: what is passed here has no type on purpose
type Junk = any;
const JUNK: readonly (readonly [string, Junk])[] = [
  ["null", null],
  ["a fraction", 0.5],
  ["NaN", Number.NaN],
  ["a string", "abc"],
  ["a function", () => {}],
  ["a symbol", Symbol("s")],
  ["a bigint", 5n],
  ["an array", [Symbol("x")]],
  ["a bare object", Object.create(null)],
  ["a name of Object.prototype", "toString"],
];

/** undefined: accepted; otherwise what was thrown. */
async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

const untyped: string[] = [];
async function typed(what: string, call: () => unknown): Promise<void> {
  const error = await thrownBy(call);
  if (error !== undefined && !(error instanceof AclError)) {
    untyped.push(`${what}: ${String(error)}`);
  }
}

/** As `typed`, for values that can never be right. */
async function refused(what: string, call: () => unknown): Promise<void> {
  const error = await thrownBy(call);
  if (!(error instanceof AclError)) {
    untyped.push(`${what}: ${error === undefined ? "accepted" : String(error)}`);
  }
}

let device: Device;
beforeAll(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 * 2 ** 20 });
});
beforeEach(() => {
  untyped.length = 0;
});
afterAll(() => device.close());

test.each(JUNK)("devices, buffers and events: %s", async (_, junk) => {
  const buffer = device.allocate(64);
  const pinned = device.allocatePinned(64);
  const event = device.createEvent();
  for (const option of ["device", "cores", "memoryBytes", "seed", "driver", "faults", "watchdogMs", "trace"]) {
    await typed(`open ${option}`, async () => (await Device.open({ device: 9, driver: "inline", [option]: junk })).close());
  }
  await refused("attach", () => Device.attach(junk));
  await refused("allocate", () => device.allocate(junk));
  await refused("at", () => device.at(junk, junk));
  await typed("at size", () => device.at(buffer.address, junk));
  await typed("priority", () => device.createStream({ priority: junk }));
  await typed("synchronize", () => device.synchronize(junk));
  await refused("write", () => buffer.write(junk));
  await typed("write offset", () => buffer.write(new Uint8Array(4), junk));
  await typed("read", () => buffer.read(junk));
  await typed("read offset", () => buffer.read(new Uint8Array(4), junk));
  await refused("view", () => pinned.view(junk));
  await typed("view length", () => pinned.view("float32", junk));
  await refused("elapsed", () => event.elapsedMs(junk));
  await typed("event signal", () => event.synchronize({ signal: junk }));
  await refused("mode", () => device.defaultContext.setFailureMode(junk));
  await typed("close", async () => {
    const other = await Device.open({ device: 9, driver: "inline" });
    await other.close({ timeoutMs: junk }).finally(() => other.close());
  });
  for (const handle of [buffer, pinned, event]) {
    handle.dispose();
  }
  expect(untyped).toEqual([]);
});

test.each(JUNK)("streams: %s", async (_, junk) => {
  const stream = device.createStream();
  const buffer = device.allocate(64);
  await refused("attach", () => Stream.attach(device, junk));
  await refused("attach to", () => Stream.attach(junk, stream.share()));
  await refused("memcpy target", () => stream.memcpy(junk, buffer, 8));
  await refused("memcpy source", () => stream.memcpy(buffer, junk));
  await typed("memcpy size", () => stream.memcpy(buffer, new Uint8Array(64), junk));
  await refused("memcpy2d", () => stream.memcpy2d(buffer, junk, new Uint8Array(64), junk, junk, junk));
  await refused("memset", () => stream.memset(junk, 0));
  await refused("memset value", () => stream.memset(buffer, junk));
  await typed("fill", () => stream.fill(buffer, junk, 4));
  await refused("fill bytes", () => stream.fill(buffer, 1, junk));
  await refused("copy", () => stream.copy(junk, junk));
  await refused("copy view", () =>
    stream.copy({ address: buffer, dtype: "float32", dims: [1] }, { address: buffer, dtype: "float32", dims: [1], strides: junk, offsetBytes: 0.5 }),
  );
  await refused("writeValue", () => stream.writeValue(junk, 1n));
  await typed("writeValue value", () => stream.writeValue(buffer, junk));
  await refused("launch", () => stream.launch(junk));
  await refused("probe", () => stream.launch({ probe: junk }));
  await typed("spin", () => stream.launch({ probe: "spin", argument: junk }));
  await typed("nop", () => stream.nop(junk));
  await typed("batch", () => stream.batch(junk));
  await refused("record", () => stream.record(junk));
  await refused("wait", () => stream.wait(junk));
  await typed("timeout", () => stream.synchronize({ timeoutMs: junk }));
  stream.nop();
  await typed("signal", () => stream.synchronize({ signal: junk }));
  await stream.synchronize();
  await stream.destroy();
  buffer.dispose();
  expect(untyped).toEqual([]);
});

test.each(JUNK)("models and tensors: %s", async (_, junk) => {
  const executor = await Executor.load(DIGITS, { device, shapes: { image: [1, 1, 28, 28] } });
  const image = Tensor.zeros("float32", [1, 1, 28, 28]);
  await refused("load", () => Executor.load(junk, { device }));
  for (const option of ["device", "shapes", "frames", "programs", "folder", "disable", "signal", "onProgress"]) {
    await typed(`load ${option}`, async () => (await Executor.load(DIGITS, { device, [option]: junk })).dispose());
  }
  await refused("dtype", () => new Tensor(junk, [1], new Float32Array(1)));
  await refused("dims", () => new Tensor("float32", junk, new Float32Array(2)));
  await refused("data", () => new Tensor("float32", [1], junk));
  await refused("from", () => Tensor.from(junk));
  await refused("feeds", () => executor.run(junk));
  await refused("feed", () => executor.run({ image: junk }));
  await typed("run options", () => executor.run({ image }, junk));
  for (const option of ["stream", "signal", "outputs"]) {
    await typed(`run ${option}`, () => executor.run({ image }, { [option]: junk }));
    await typed(`runSync ${option}`, () => executor.runSync({ image }, { allowMainThread: true, [option]: junk }));
  }
  await refused("output", () => executor.run({ image }, { outputs: { probability: junk } }));
  await refused("warm-up", () => executor.warmUp({ shapes: { image: junk } }));
  await typed("warm-up signal", () => executor.warmUp({ signal: junk }));
  executor.dispose();
  expect(untyped).toEqual([]);
  expect(device.info().usedBy).toMatchObject({ data: 0, program: 0, frame: 0, arena: 0 });
});

test("tensors that cannot be", () => {
  expect(() => new Tensor("float32", [1], undefined as Junk)).toThrow(AclError);
  expect(() => Tensor.zeros("float32", [1e12])).toThrow(expect.objectContaining({ code: 207001 }));
  expect(() => Tensor.zeros("float32", [-1])).toThrow(expect.objectContaining({ code: 107000 }));
});

test("properties that somebody added to Object.prototype are no options", async () => {
  const prototype = Object.prototype as Record<string, unknown>;
  prototype["zork"] = 1;
  try {
    const executor = await Executor.load(DIGITS, { device, shapes: { image: [1, 1, 28, 28] } });
    const outputs = { probability: Tensor.zeros("float32", [1, 10]) };
    expect(await executor.run({ image: Tensor.zeros("float32", [1, 1, 28, 28]) }, { outputs })).toBe(outputs);
    executor.dispose();
  } finally {
    delete prototype["zork"];
  }
});
