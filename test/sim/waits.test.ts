/** Waits for words and with time-outs, hardware lanes, and the virtual clock. */
import { Direction, Header, Layout } from "../../dist/asm/abi/device";
import { Stream } from "../../dist/asm/abi/stream";
import { Compare, Probe, TaskOp, Update } from "../../dist/asm/abi/task";
import { Machine, mix } from "./machine";

const header = (field: number) => (Layout.HEADER + field) >> 2;

test.each([
  ["greater or equal", Compare.GREATER_EQUAL, 4, 5],
  ["equal", Compare.EQUAL, 4, 5],
  ["and", Compare.AND, 2, 5],
  ["less", Compare.LESS, 5, 4],
  ["not equal", Compare.NOT_EQUAL, 5, 4],
] as const)("a stream waits for a word: %s", (_, compare, before, after) => {
  const machine = new Machine({ cores: 2, seed: 11 });
  const context = machine.context();
  const [waiter, writer] = [machine.stream(context), machine.stream(context)];
  const word = machine.allocate(64);
  machine.words[word >> 2] = before;
  machine.host.submit(waiter, TaskOp.WAIT_VALUE, word, 5, 0, 0, compare, 0);
  machine.host.submit(waiter, TaskOp.PROBE, Probe.MIX, 7, word + 8, 0, 0, 0);
  for (let i = 0; i < 50; i++) machine.stepSomeone(4);
  expect(machine.words[(word + 8) >> 2]).toBe(0);
  machine.host.submit(writer, TaskOp.WRITE_VALUE, word, after, 0, Update.SET, 0, 0);
  machine.drain([writer, waiter]);
  expect(machine.words[(word + 8) >> 2]).toBe(7);
});

test("a word that is cleared on success lets one waiter through per record", () => {
  const machine = new Machine({ cores: 3, seed: 12 });
  const context = machine.context();
  const waiters = Array.from({ length: 5 }, () => machine.stream(context));
  const writer = machine.stream(context);
  const word = machine.allocate(64);
  for (const waiter of waiters) machine.host.submit(waiter, TaskOp.WAIT_VALUE, word, 1, 0, 0, Compare.EQUAL, 1);
  for (let passed = 1; passed <= 5; passed++) {
    machine.host.submit(writer, TaskOp.WRITE_VALUE, word, 1, 0, Update.SET, 0, 0);
    machine.drain([writer]);
    for (let i = 0; i < 100; i++) machine.stepSomeone(4);
    expect(waiters.filter((waiter) => machine.host.fence(waiter) === machine.host.tail(waiter)).length).toBe(passed);
  }
});

test("updates of a word are atomic adds, ors and ands", () => {
  const machine = new Machine({ cores: 3, seed: 13 });
  const context = machine.context();
  const streams = [machine.stream(context), machine.stream(context), machine.stream(context)];
  const word = machine.allocate(64);
  for (let i = 0; i < 60; i++) machine.host.submit(streams[i % 3]!, TaskOp.WRITE_VALUE, word, 3, 0, Update.ADD, 0, 0);
  machine.drain(streams);
  expect(machine.words[word >> 2]).toBe(180);
  machine.host.submit(streams[0]!, TaskOp.WRITE_VALUE, word, 0x100, 1, Update.OR, 0, 0);
  machine.host.submit(streams[0]!, TaskOp.WRITE_VALUE, word, 0x104, 1, Update.AND, 0, 0);
  machine.drain(streams);
  expect([...machine.words.subarray(word >> 2, (word >> 2) + 2)]).toEqual([(180 & 0x104) | 0x100, 1]);
});

test("a wait that nobody ends retires with 107020 after its time-out, and the stream goes on", () => {
  const machine = new Machine({ cores: 1, seed: 14 });
  const context = machine.context();
  const [stream, never] = [machine.stream(context), machine.stream(context)];
  const word = machine.allocate(64);
  machine.host.submit(stream, TaskOp.WAIT_VALUE, word, 1, 0, 5, Compare.EQUAL, 0);
  machine.host.submit(stream, TaskOp.WAIT, never, machine.host.tail(never) + 1, 1, 5, 0, 0);
  machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, 7, word + 8, 0, 0, 0);
  for (let i = 0; i < 20; i++) machine.stepSomeone(4);
  expect(machine.words[(word + 8) >> 2]).toBe(0);
  machine.clockUs += 6000;
  for (let i = 0; i < 20; i++) machine.stepSomeone(4);
  expect(machine.words[(word + 8) >> 2]).toBe(0);
  machine.clockUs += 6000;
  machine.drain([stream]);
  expect(machine.words[(word + 8) >> 2]).toBe(7);
  expect(machine.words[(Layout.STREAMS + stream * Stream.SIZE + Stream.ERROR) >> 2]).toBe(107020);
});

test("sixty-four streams over eight lanes: never more than eight hold one, and all finish in order", () => {
  const machine = new Machine({ cores: 4, seed: 15, pages: 700 });
  machine.words[header(Header.LANES)] = 8;
  machine.words[header(Header.LANES_FREE)] = 8;
  const context = machine.context();
  const streams = Array.from({ length: 64 }, () => machine.stream(context));
  const words = machine.allocate(64 * 64);
  const program = machine.program([[[Probe.COUNT, 3, 0]], [[Probe.COUNT, 2, 0]]]);
  const frames = streams.map(() => machine.frame(program.address, machine.allocate(64)));
  const expected = streams.map(() => 0);
  for (let round = 1; round <= 5; round++) {
    streams.forEach((stream, i) => {
      machine.host.submit(stream, TaskOp.RUN, frames[i]!, 0, 0, 0, 0, 0);
      machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, round, words + i * 64, 0, 0, 0);
      expected[i] = mix(expected[i]!, round);
    });
  }
  let most = 0;
  while (streams.some((stream) => machine.host.fence(stream) < machine.host.tail(stream))) {
    machine.stepSomeone(1);
    most = Math.max(most, 8 - machine.words[header(Header.LANES_FREE)]!);
  }
  expect(most).toBe(8);
  expect(machine.words[header(Header.LANES_FREE)]).toBe(8);
  expect(streams.map((_, i) => machine.words[(words + i * 64) >> 2])).toEqual(expected);
});

test("on a virtual clock a three-stage pipeline runs at the pace of its slowest stage", () => {
  const machine = new Machine({ cores: 3, seed: 16 });
  const doubles = new Float64Array(machine.memory.buffer);
  machine.startVirtualClock();
  const rate = (direction: number) => (Layout.HEADER + Header.BANDWIDTHS + direction * 8) >> 3;
  doubles[rate(Direction.HOST_TO_DEVICE)] = 1000; // bytes per us
  doubles[rate(Direction.DEVICE_TO_HOST)] = 1000;
  const context = machine.context();
  const [upload, compute, download] = [machine.stream(context), machine.stream(context), machine.stream(context)];
  const buffers = machine.allocate(4 * 65536);
  const batches = 40;
  const [uploaded, computed] = [machine.host.createEvent(), machine.host.createEvent()];
  const done = Array.from({ length: batches }, () => machine.host.createEvent());
  for (let batch = 0; batch < batches; batch++) {
    machine.host.submit(upload, TaskOp.COPY | (Direction.HOST_TO_DEVICE << 8), buffers, buffers + 65536, 40_000, 0, 0, 0); // 40 us
    machine.host.record(upload, uploaded);
    machine.host.waitEvent(compute, uploaded);
    machine.host.submit(compute, TaskOp.PROBE, Probe.SPIN, 100_000, 0, 0, 0, 0); // 100 us
    machine.host.record(compute, computed);
    machine.host.waitEvent(download, computed);
    machine.host.submit(download, TaskOp.COPY | (Direction.DEVICE_TO_HOST << 8), buffers, buffers + 65536, 60_000, 0, 0, 0); // 60 us
    machine.host.record(download, done[batch]!);
    if (batch % 8 === 7) machine.drain([upload, compute, download]);
  }
  machine.drain([upload, compute, download]);
  const times = done.map((event) => machine.host.eventTime(event));
  expect(times[0]).toBeCloseTo(200, 0);
  const period = (times[batches - 1]! - times[0]!) / (batches - 1);
  expect(period).toBeGreaterThanOrEqual(90);
  expect(period).toBeLessThanOrEqual(110);
});
