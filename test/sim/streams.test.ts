/** Order within streams, event edges between them, and exact tile counts, over random schedules. */
import { Layout } from "../../dist/asm/abi/device";
import { Stream } from "../../dist/asm/abi/stream";
import { Probe, TaskOp } from "../../dist/asm/abi/task";
import { Machine, NEAR_WRAP, generator, mix } from "./machine";

interface Edge {
  readonly slot: number;
  readonly value: number;
}

/** Submits a random program of several streams while cores step; checks everything it left in memory. Returns tasks run. */
function randomProgram(seed: number): number {
  const plan = generator(seed ^ 0x9e3779b9);
  const machine = new Machine({ cores: 1 + plan(4), seed, firstSequence: plan(4) ? NEAR_WRAP : 0, pages: 192 });
  const context = machine.context();
  const streams = Array.from({ length: 2 + plan(4) }, () => machine.stream(context, plan(3)));
  const words = machine.allocate(streams.length * 64);
  const slots = machine.allocate(8 * 4096);
  const expected = streams.map(() => 0);
  const edges: Edge[] = [];
  const runs: { data: number; counters: number; times: number }[] = [];
  const program = machine.program([
    [[Probe.COUNT, 1 + plan(6), 0]],
    [
      [Probe.COUNT, 1 + plan(9), 0],
      [Probe.COUNT, 1 + plan(3), 0],
    ],
    [[Probe.COUNT, 1, 0]],
  ]);
  const frames = streams.map(() => {
    const data = machine.allocate(program.counters * 4);
    runs.push({ data, counters: program.counters, times: 0 });
    return machine.frame(program.address, data);
  });
  const event = machine.host.createEvent();
  let nextSlot = 0;
  let tasks = 0;
  const put = (stream: number, op: number, ...p: number[]) => {
    while (machine.host.submit(stream, op, p[0] ?? 0, p[1] ?? 0, p[2] ?? 0, p[3] ?? 0, 0, 0) === -1) machine.stepSomeone(8);
    tasks++;
  };
  const count = 20 + plan(60);
  for (let i = 0; i < count; i++) {
    const s = plan(streams.length);
    const stream = streams[s]!;
    const kind = plan(10);
    if (kind < 5) {
      const argument = plan(1 << 30);
      put(stream, TaskOp.PROBE, Probe.MIX, argument, words + s * 64);
      expected[s] = mix(expected[s]!, argument);
    } else if (kind < 7) {
      put(stream, TaskOp.RUN, frames[s]!);
      runs[s]!.times++;
    } else if (nextSlot < 4000) {
      // producer writes a value and records; consumer waits and copies it out: a missing edge copies a zero
      const source = slots + nextSlot * 8;
      const value = 1 + plan(1 << 30);
      put(stream, TaskOp.WRITE_VALUE, source, value, 0);
      while (machine.host.record(stream, event) === -1) machine.stepSomeone(8);
      if (plan(2)) machine.stepSomeone(1 + plan(3));
      const other = streams[plan(streams.length)]!;
      while (machine.host.waitEvent(other, event) === -1) machine.stepSomeone(8);
      put(other, TaskOp.COPY, source + 8, source, 8);
      edges.push({ slot: source + 8, value });
      nextSlot += 2;
    }
    if (plan(3) === 0) machine.stepSomeone(1 + plan(8));
  }
  machine.drain(streams);
  expect(streams.map((_, s) => machine.words[(words + s * 64) >> 2])).toEqual(expected);
  for (const edge of edges) expect(machine.words[edge.slot >> 2]).toBe(edge.value);
  for (const run of runs) {
    const counts = machine.words.subarray(run.data >> 2, (run.data >> 2) + run.counters);
    expect(counts.every((n) => n === run.times)).toBe(true);
  }
  return tasks;
}

test("random multi-stream programs keep order, edges and tile counts across 2^32", () => {
  const seeds = Number(process.env["NPURT_SEEDS"] ?? 1500);
  let tasks = 0;
  for (let seed = 1; seed <= seeds; seed++) tasks += randomProgram(seed);
  expect(tasks).toBeGreaterThan(seeds * 10);
});

test("a life of a stream ends once: later ends, and ends of an earlier life, take nothing", () => {
  const { host, words } = new Machine({ cores: 1, seed: 1 });
  const generationOf = (stream: number) => words[(Layout.STREAMS + stream * Stream.SIZE + Stream.GENERATION) >> 2]!;
  const GONE = -3;
  const context = host.createContext();
  const stream = host.createStream(context, 0);
  const first = generationOf(stream);
  expect(host.destroyContext(context)).toBe(0);
  expect([host.destroyStream(stream, first), host.destroyStream(stream, first)]).toEqual([1, GONE]);
  expect(host.createStream(context, 0)).toBe(stream);
  expect([host.destroyStream(stream, first), host.destroyContext(context)]).toEqual([GONE, 0]);
  expect([host.destroyStream(stream, generationOf(stream)), host.destroyContext(context)]).toEqual([1, 1]);
  expect(host.createStream(context, 0)).toBe(GONE);
});
