/** Order, events, back-pressure, waiting and giving up, on every driver. */
import type { Stream } from "npurt";
import { failureOf, onEachDriver } from "./drivers";

/** What a word holds after `values` were mixed into it in this order. */
function mixed(values: readonly number[]): number {
  return values.reduce((word, value) => (Math.imul(word, 31) + value) >>> 0, 0);
}

/** Queues a task whose effect depends on the order of all such tasks on the word. */
const mix = (stream: Stream, address: number, argument: number): void => stream.launch({ probe: "mix", argument, address });

onEachDriver("a stream keeps its order, also when its ring overflows", async (device) => {
  const stream = device.createStream();
  const word = device.allocate(4);
  stream.memset(word, 0);
  const values = Array.from({ length: 2000 }, (_, i) => i);
  stream.batch(() => {
    for (const value of values) {
      mix(stream, word.address, value);
    }
  });
  await stream.synchronize();
  expect(new Uint32Array((await word.read()).buffer)[0]).toBe(mixed(values));
});

onEachDriver("events order work across streams", async (device) => {
  const [a, b, c] = [device.createStream(), device.createStream({ priority: 7 }), device.createStream({ priority: 3 })];
  const word = device.allocate(4);
  a.memset(word, 0);
  const expected: number[] = [];
  for (let round = 0; round < 50; round++) {
    for (const [stream, next] of [
      [a, b],
      [b, c],
      [c, a],
    ] as const) {
      const value = expected.length + 1;
      expected.push(value);
      mix(stream, word.address, value);
      const event = device.createEvent();
      stream.record(event);
      next.wait(event);
      event.destroy(); // who waits has what it needs
    }
  }
  await device.synchronize();
  expect(new Uint32Array((await word.read()).buffer)[0]).toBe(mixed(expected));
});

onEachDriver("events tell their time", async (device) => {
  const stream = device.createStream();
  const [start, end] = [device.createEvent(), device.createEvent()];
  expect(start.query()).toBe(true);
  expect((await failureOf(() => start.elapsedMs(end))).code).toBe(107006);
  stream.record(start);
  stream.launch({ probe: "spin", argument: 200_000 });
  stream.record(end);
  await end.synchronize();
  expect(start.elapsedMs(end)).toBeGreaterThan(0);
  expect((await failureOf(() => end.elapsedMs(start))).code).toBe(107007);
});

onEachDriver("synchronize and event waits time out with the task that is in the way", async (device, driver) => {
  if (driver !== "threads") {
    return; // nothing else runs while this thread waits, so only cores of their own can be slow
  }
  const stream = device.createStream();
  const event = device.createEvent();
  stream.launch({ probe: "spin", argument: 60_000_000 });
  stream.record(event);
  const late = await failureOf(stream.synchronize({ timeoutMs: 20 }));
  expect(late.code).toBe(507046);
  expect(late.message).toMatch(/head is task \d+, a PROBE/);
  expect((await failureOf(event.synchronize({ timeoutMs: 5 }))).code).toBe(507047);
  const controller = new AbortController();
  const waiting = failureOf(stream.synchronize({ signal: controller.signal }));
  controller.abort(new Error("enough"));
  const error = await waiting;
  expect(error.code).toBe(107035);
  expect((error.cause as Error).message).toBe("enough");
  expect((await failureOf(stream.synchronize({ signal: controller.signal }))).code).toBe(107035);
  await stream.synchronize();
  expect(stream.query()).toBe(true);
});

onEachDriver("bad time-outs and options are refused", async (device) => {
  const stream = device.createStream();
  expect((await failureOf(stream.synchronize({ timeoutMs: 0 }))).code).toBe(107000);
  expect((await failureOf(stream.synchronize({ timeoutMs: -2 }))).code).toBe(107000);
  expect((await failureOf(stream.synchronize({ timeoutMS: 5 } as never))).message).toMatch(/did you mean "timeoutMs"/);
  await stream.synchronize({ timeoutMs: -1 });
  expect((await failureOf(() => device.createStream({ priority: 8 }))).code).toBe(107000);
  expect((await failureOf(() => stream.launch({ probe: "nonsense" as never }))).message).toMatch(/unknown/);
});

onEachDriver("blocking synchronize runs or awaits what is queued", async (device) => {
  const stream = device.createStream();
  const word = device.allocate(4);
  stream.memset(word, 0);
  mix(stream, word.address, 5);
  stream.synchronizeSync();
  expect(stream.query()).toBe(true);
  expect(new Uint32Array((await word.read()).buffer)[0]).toBe(5);
});

onEachDriver("an aborted stream drops its tasks and says so", async (device) => {
  const stream = device.createStream();
  const word = device.allocate(4);
  stream.memset(word, 0);
  await stream.synchronize();
  stream.abort();
  mix(stream, word.address, 1);
  expect((await failureOf(stream.synchronize())).code).toBe(107023);
  expect(new Uint32Array((await word.read()).buffer)[0]).toBe(0);
  await stream.destroy();
});

onEachDriver("destroy waits for tasks, is idempotent, and ends the handle", async (device) => {
  const stream = device.createStream();
  const word = device.allocate(4);
  stream.memset(word, 0);
  for (let i = 0; i < 100; i++) {
    mix(stream, word.address, 1);
  }
  await stream.destroy();
  await stream.destroy();
  expect(new Uint32Array((await word.read()).buffer)[0]).toBe(mixed(new Array(100).fill(1)));
  expect((await failureOf(() => stream.nop())).code).toBe(107003);
  expect((await failureOf(stream.synchronize())).code).toBe(107003);
  const event = device.createEvent();
  event.destroy();
  event.destroy();
  expect((await failureOf(() => device.createStream().record(event))).code).toBe(107017);
  expect((await failureOf(device.defaultContext.defaultStream.destroy())).code).toBe(107003);
});

onEachDriver("streams and events of another context or device are refused", async (device) => {
  const context = device.createContext();
  const event = context.createEvent();
  expect((await failureOf(() => device.createStream().record(event))).code).toBe(107003);
  await context.destroy();
  await context.destroy();
  expect((await failureOf(() => context.createStream())).code).toBe(107002);
});

onEachDriver("many streams at once", async (device) => {
  const streams = Array.from({ length: 200 }, () => device.createStream());
  const words = device.allocate(4 * streams.length);
  device.defaultContext.defaultStream.memset(words, 0);
  await device.synchronize();
  for (let i = 0; i < 20; i++) {
    for (const [k, stream] of streams.entries()) {
      mix(stream, words.address + 4 * k, i + k);
    }
  }
  await device.synchronize();
  const found = new Uint32Array((await words.read()).buffer);
  expect([...found]).toEqual(streams.map((_, k) => mixed(Array.from({ length: 20 }, (_, i) => i + k))));
});
