/** Virtual time with a cost model: what a pipeline takes on the device, to the microsecond, whatever this machine does meanwhile. */
import { Device, type Event, type Stream } from "npurt";
import { Probe, TaskOp } from "../../dist/asm/abi/task";
import { coreOf } from "../../dist/lib/runtime/internals";
import { copy, executorOf, handMade, probe } from "./programs";

const MIB = 2 ** 20;
/** 1,000 bytes per microsecond to and from the host, so that 1 MB takes a millisecond. */
const COSTS = { bandwidths: [100_000, 1000, 1000, 1000], taskUs: 1 } as const;

let device: Device;
afterEach(() => device.close());

async function open(cores = 2, seed = 1): Promise<Device> {
  device = await Device.open({ driver: "sim", cores, seed, memoryBytes: 64 * MIB, costs: COSTS });
  return device;
}

function recorded(stream: Stream): Event {
  const event = device.createEvent();
  stream.record(event);
  return event;
}

test("a copy takes its bytes by the direction's bandwidth, and copies of both directions run side by side", async () => {
  await open();
  const memory = device.allocate(2 * MIB);
  const host = device.allocatePinned(2 * MIB);
  const [up, down] = [device.createStream(), device.createStream()];
  const begin = recorded(up);
  up.memcpy(memory.address, host.address, 1_000_000);
  const upEnd = recorded(up);
  down.memcpy(host.address + MIB, memory.address + MIB, 1_000_000);
  const downEnd = recorded(down);
  await device.synchronize();
  expect(begin.elapsedMs(upEnd)).toBeCloseTo(1.003, 2);
  expect(begin.elapsedMs(downEnd)).toBeLessThan(1.02); // not 2: each direction has an engine
});

test("time passes only where the device works: the host's own work costs none", async () => {
  await open(1);
  const stream = device.createStream();
  const begin = recorded(stream);
  await new Promise((resolve) => setTimeout(resolve, 20));
  stream.launch({ probe: "spin", argument: 500_000 }); // nanoseconds on a clock with costs
  const end = recorded(stream);
  await stream.synchronize();
  expect(begin.elapsedMs(end)).toBeGreaterThan(0.5);
  expect(begin.elapsedMs(end)).toBeLessThan(0.51);
});

test("time-outs of the host are virtual: they fire before what takes longer, at once on the wall", async () => {
  await open();
  const stream = device.createStream();
  stream.launch({ probe: "spin", argument: 20_000_000 });
  await expect(stream.synchronize({ timeoutMs: 15 })).rejects.toMatchObject({ code: 507046 });
  expect(stream.query()).toBe(false);
  await stream.synchronize({ timeoutMs: 6 });
  stream.launch({ probe: "spin", argument: 20_000_000 });
  expect(() => stream.synchronizeSync(15)).toThrow(expect.objectContaining({ code: 507046 }));
  stream.synchronizeSync(6);
  // A day: this test has a minute.
  const word = device.allocatePinned(64);
  word.bytes.fill(0);
  stream.waitValue(word.address, 1n);
  await expect(stream.synchronize({ timeoutMs: 86_400_000 })).rejects.toMatchObject({ code: 507046 });
  word.bytes[0] = 1;
  await stream.synchronize();
});

test("a wait whose event comes after its time-out fails at its time-out, and one whose event comes before does not", async () => {
  await open();
  const [slow, waiting] = [device.createStream(), device.createStream()];
  const begin = recorded(waiting);
  slow.launch({ probe: "spin", argument: 5_000_000 });
  const { index, machine } = coreOf.stream(slow);
  const tail = machine.core.tail(index);
  const wait = (timeoutMs: number): number =>
    coreOf.stream(waiting).submit(TaskOp.WAIT, index, tail % 2 ** 32, Math.floor(tail / 2 ** 32), timeoutMs);
  wait(3);
  const timedOut = recorded(waiting);
  wait(4);
  const passed = recorded(waiting);
  await expect(waiting.synchronize()).rejects.toMatchObject({ code: 107020 });
  await slow.synchronize();
  expect(begin.elapsedMs(timedOut)).toBeCloseTo(3, 1);
  expect(begin.elapsedMs(passed)).toBeCloseTo(5, 1);
});

test("a wait for a word that nobody writes times out at its time, between other work", async () => {
  await open();
  const [busy, waiting] = [device.createStream(), device.createStream()];
  const word = device.allocatePinned(64);
  word.bytes.fill(0);
  const begin = recorded(waiting);
  waiting.waitValue(word.address, 1n, { timeoutMs: 7 });
  const end = recorded(waiting);
  busy.launch({ probe: "spin", argument: 20_000_000 });
  await expect(waiting.synchronize()).rejects.toMatchObject({ code: 107020 });
  expect(begin.elapsedMs(end)).toBeCloseTo(7, 1);
  expect(busy.query()).toBe(false); // still at it
  await busy.synchronize();
});

test.each([
  [1, 4],
  [2, 2],
  [4, 1],
])("a program's region of four tiles, 4 ms of work, takes %i cores %i ms", async (cores, ms) => {
  await open(cores);
  const program = executorOf(device, handMade([[copy], [probe(Probe.NOTHING, 0, 4)]], 16, 4_000_000)).prepare();
  const stream = device.createStream();
  const begin = recorded(stream);
  stream.launch(program);
  const end = recorded(stream);
  await stream.synchronize();
  expect(Math.abs(begin.elapsedMs(end) - (4 + ms))).toBeLessThan(0.05); // the copy's region has one tile
});

/** `items` through copy in (1 ms), work (2 ms), copy out (1 ms), over `depth` buffers of each kind. Milliseconds at which each item was out. */
async function pipeline(items: number, depth: number): Promise<{ ends: number[]; results: Int32Array }> {
  const words = MIB / 4;
  const bytes = 1_000_000;
  const streams = { up: device.createStream(), work: device.createStream(), down: device.createStream() };
  const source = device.allocatePinned(items * MIB);
  const sink = device.allocatePinned(items * MIB);
  new Int32Array(source.bytes.buffer, source.bytes.byteOffset, items * words).forEach((_, at, all) => {
    all[at] = at;
  });
  const inputs = Array.from({ length: depth }, () => device.allocate(MIB));
  const outputs = Array.from({ length: depth }, () => device.allocate(MIB));
  const begin = recorded(streams.up);
  const worked: Event[] = [];
  const out: Event[] = [];
  for (let item = 0; item < items; item++) {
    const input = inputs[item % depth]!;
    const output = outputs[item % depth]!;
    const before = item - depth;
    if (before >= 0) {
      streams.up.wait(worked[before]!);
    }
    streams.up.memcpy(input.address, source.address + item * MIB, bytes);
    streams.work.wait(recorded(streams.up));
    if (before >= 0) {
      streams.work.wait(out[before]!);
    }
    streams.work.launch({ probe: "spin", argument: 2_000_000 });
    streams.work.memcpy(output.address, input.address, bytes);
    worked.push(recorded(streams.work));
    streams.down.wait(worked[item]!);
    streams.down.memcpy(sink.address + item * MIB, output.address, bytes);
    out.push(recorded(streams.down));
  }
  await device.synchronize();
  const results = Int32Array.from(
    { length: items },
    (_, item) => new Int32Array(sink.bytes.buffer, sink.bytes.byteOffset + item * MIB, words)[bytes / 4 - 1]!,
  );
  return { ends: out.map((event) => begin.elapsedMs(event)), results };
}

test.each([1, 2, 3])("a pipeline of three stages takes the slowest stage per item, and overwrites nothing early (seed %i)", async (seed) => {
  await open(2, seed);
  const items = 8;
  const { ends, results } = await pipeline(items, 2);
  const period = (ends[items - 1]! - ends[1]!) / (items - 2);
  expect(Math.abs(period - 2)).toBeLessThan(0.2);
  expect(Math.abs(ends[0]! - 4)).toBeLessThan(0.2); // the first goes through all three alone
  expect([...results]).toEqual(Array.from({ length: items }, (_, item) => (item * MIB) / 4 + 249_999));
});

test("with one buffer of each kind the stages wait for each other, and the period shows it", async () => {
  await open();
  const { ends } = await pipeline(6, 1);
  // The input is free after the work (1 + 2 ms), and the output's copy runs beside the next item's way in.
  expect(Math.abs((ends[5]! - ends[1]!) / 4 - 3)).toBeLessThan(0.3);
});

test("costs are for the sim driver, and complete", async () => {
  await open();
  await expect((async () => Device.open({ driver: "inline", costs: COSTS }))()).rejects.toMatchObject({ code: 107000 });
  const partial = { bandwidths: [1, 1, 0, 1], taskUs: 1 } as const;
  await expect((async () => Device.open({ driver: "sim", costs: partial }))()).rejects.toMatchObject({ code: 107000 });
});
