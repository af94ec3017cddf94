/** context.run: the context that calls use which are given none, across awaits; nested, concurrent, and gone. */
import { setTimeout as sleep } from "node:timers/promises";
import path from "node:path";
import { Context, Device, Executor } from "npurt";
import { Probe } from "../../dist/asm/abi/task";
import { coreOf } from "../../dist/lib/runtime/internals";
import { copy, executorOf, handMade, probe } from "./programs";

const DIGITS = path.join(__dirname, "../../examples/digits/digits.onnx");
let device: Device;

beforeEach(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 * 2 ** 20 });
});
afterEach(() => device.close());

const contextOf = (stream: ReturnType<Device["createStream"]>): number => coreOf.stream(stream).context.index;

test("streams and events without a handle are of the current context, also after an await, a timer, and in callbacks", async () => {
  const context = device.createContext();
  expect(Context.current).toBeUndefined();
  expect(contextOf(device.createStream())).toBe(device.defaultContext.id);
  const result = await context.run(async () => {
    expect(Context.current).toBe(context);
    const before = contextOf(device.createStream());
    await sleep(2);
    const after = contextOf(device.createStream());
    const later = await new Promise<number>((resolve) => setImmediate(() => resolve(contextOf(device.createStream()))));
    device.createStream().record(device.createEvent()); // 107003 if they were of different contexts
    return [before, after, later];
  });
  expect(result).toEqual([context.id, context.id, context.id]);
  expect(Context.current).toBeUndefined();
  await context.destroy();
});

test("runs nest, tasks side by side keep their own, explicit handles win, and what body throws comes out", async () => {
  const [a, b] = [device.createContext(), device.createContext()];
  const seen = await Promise.all(
    [a, b].map((context) =>
      context.run(async () => {
        await sleep(1);
        const inner = b.run(() => contextOf(device.createStream()));
        return [contextOf(device.createStream()), inner, contextOf(a.createStream()), contextOf(device.defaultContext.createStream())];
      }),
    ),
  );
  const standard = device.defaultContext.id;
  expect(seen).toEqual([
    [a.id, b.id, a.id, standard],
    [b.id, b.id, a.id, standard],
  ]);
  expect(() =>
    a.run(() => {
      throw new Error("mine");
    }),
  ).toThrow("mine");
  expect(() => a.run(7 as never)).toThrow(expect.objectContaining({ code: 107000 }));
});

test("another device has its own default context inside, and a destroyed current context gives 107002", async () => {
  const other = await Device.open({ driver: "inline", memoryBytes: 16 * 2 ** 20 });
  const context = device.createContext();
  await context.run(async () => {
    expect(contextOf(other.createStream())).toBe(other.defaultContext.id);
    await context.destroy();
    expect(() => device.createStream()).toThrow(expect.objectContaining({ code: 107002 }));
    expect(() => context.run(() => {})).toThrow(expect.objectContaining({ code: 107002 }));
  });
  expect(contextOf(device.createStream())).toBe(device.defaultContext.id);
  await other.close();
});

test("a run without a stream is the current context's: it is refused where that has stopped, and goes on elsewhere", async () => {
  const other = await Device.open({ driver: "inline", memoryBytes: 64 * 2 ** 20 });
  const context = other.createContext();
  const executor = await context.run(() => Executor.load(DIGITS)); // the current context's device, not the lowest
  const feeds = { image: new Float32Array(784) };
  const [plain, inside] = [await executor.run(feeds), await context.run(() => executor.run(feeds))];
  expect(Array.from(inside.probability!.data as Float32Array)).toEqual(Array.from(plain.probability!.data as Float32Array));
  context.setFailureMode("STOP");
  const stream = context.createStream();
  stream.launch({ probe: "unreachable" });
  await expect(stream.synchronize()).rejects.toMatchObject({ code: 507015 });
  await context.run(() => expect(executor.run(feeds)).rejects.toMatchObject({ code: 507015 }));
  await executor.run(feeds);
  await context.reset();
  await context.run(() => executor.run(feeds));
  const { allocations } = other.info();
  await context.run(async () => {
    for (let i = 0; i < 100; i++) await executor.run(feeds);
  });
  expect(other.info().allocations).toBeLessThanOrEqual(allocations + 8); // rings of its run streams, nothing per run
  executor.dispose();
  await context.destroy();
  await other.close();
});

test("a failed run inside tells its caller, and a later synchronize of the context does not tell it again", async () => {
  const context = device.createContext();
  const executor = executorOf(device, handMade([[copy], [probe(Probe.UNREACHABLE, 0)]]));
  const feeds = { x: new Int32Array(16) };
  for (let i = 0; i < 3; i++) {
    await expect(context.run(() => executor.run(feeds))).rejects.toMatchObject({ code: 507015 });
  }
  await context.synchronize();
  executor.dispose();
});
