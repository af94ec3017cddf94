/** What the core does with runs that may never end, and with programs that lie beside their frame. Runs of probes stand for kernels. */
import { Core, Layout, PoolTag, Thread } from "../../../dist/asm/abi/device";
import { Program } from "../../../dist/asm/abi/program";
import { Binding, Frame, Stream } from "../../../dist/asm/abi/stream";
import { Probe, RUN_UNBOUNDED, TaskOp } from "../../../dist/asm/abi/task";
import { Machine } from "../../sim/machine";

const HOST_CORE = 64;
const UNBOUNDED_RUN = TaskOp.RUN | (RUN_UNBOUNDED << 8);
const TILES = 5;

interface Setup {
  readonly machine: Machine;
  readonly stream: number;
  /** Queues a run that counts its tiles. Returns its sequence and the address of its counters. */
  queue(op: number): { readonly sequence: number; readonly counters: number };
  counts(counters: number): number[];
}

function setUp(tiles = TILES): Setup {
  const machine = new Machine({ cores: 2, seed: 7 });
  machine.giveScratch(HOST_CORE);
  machine.host.bindCore(HOST_CORE);
  const stream = machine.stream(machine.context());
  return {
    machine,
    stream,
    queue(op) {
      const { address } = machine.program([[[Probe.COUNT, tiles, 0]]]);
      const counters = machine.allocate(4 * tiles, PoolTag.DATA);
      return { sequence: machine.host.submit(stream, op, machine.frame(address, counters), 0, 0, 0, 0, 0), counters };
    },
    counts: (counters) => [...machine.words.subarray(counters >> 2, (counters >> 2) + tiles)],
  };
}

const once = (tiles = TILES): number[] => new Array<number>(tiles).fill(1);
const never = (tiles = TILES): number[] => new Array<number>(tiles).fill(0);

test.each([1, TILES])("a host thread helps with a run of %i tiles, and not with one that may never end", (tiles) => {
  const { machine, stream, queue, counts } = setUp(tiles);
  const first = queue(TaskOp.RUN);
  const second = queue(UNBOUNDED_RUN);
  const third = queue(TaskOp.RUN);
  expect(machine.host.help(stream, third.sequence)).toBe(0);
  expect([counts(first.counters), counts(second.counters), counts(third.counters)]).toEqual([once(tiles), never(tiles), never(tiles)]);
  expect(machine.host.fence(stream)).toBe(first.sequence);
  machine.drain([stream]); // the cores still see that there is work
  expect([counts(second.counters), counts(third.counters)]).toEqual([once(tiles), once(tiles)]);
});

test("a host thread claims no tile of an open region that may never end", () => {
  const { machine, stream, queue, counts } = setUp();
  const { sequence, counters } = queue(UNBOUNDED_RUN);
  const pending = (Layout.STREAMS + stream * Stream.SIZE + Stream.PENDING) >> 2;
  let steps = 0;
  while (machine.words[pending] === 0 && steps++ < 100) {
    machine.cores[0]!.step(1);
  }
  expect(machine.words[pending]).toBeGreaterThan(0);
  const before = counts(counters);
  expect(machine.host.help(stream, sequence)).toBe(0);
  expect(counts(counters)).toEqual(before);
  expect(before).not.toEqual(once());
  machine.drain([stream]);
  expect(counts(counters)).toEqual(once());
});

test("a program named by a distance lies behind its frame, in the argument ring", () => {
  const { machine, stream, counts } = setUp();
  const { address } = machine.program([[[Probe.COUNT, TILES, 0]]]);
  const counters = machine.allocate(4 * TILES, PoolTag.DATA);
  const mailbox = machine.words[(Layout.THREADS + Thread.MAILBOX) >> 2]!;
  const size = machine.words[(address + Program.BYTES) >> 2]!;
  const distance = 128;
  machine.words.fill(0, mailbox >> 2, (mailbox + distance) >> 2);
  machine.words[(mailbox + Frame.PROGRAM) >> 2] = distance;
  machine.words[(mailbox + Frame.BASES + 4 * Binding.DATA) >> 2] = counters;
  machine.words.copyWithin((mailbox + distance) >> 2, address >> 2, (address + size) >> 2);
  for (let i = 0; i < 100; i++) {
    // More than the ring holds at once, so that places are used again.
    expect(machine.host.submitWithArguments(stream, UNBOUNDED_RUN, distance + size, 0, 0, 0, 0, 0)).toBeGreaterThan(0);
    machine.drain([stream]);
  }
  expect(counts(counters)).toEqual(new Array<number>(TILES).fill(100));
});

test("a core's poison word is its own, and clear when its next tile starts", () => {
  const { machine, stream, queue, counts } = setUp(1);
  const words = [0, 1].map((core) => (Layout.CORES + core * Core.SIZE + Core.POISON) >> 2);
  for (const word of words) {
    machine.words[word] = 1;
  }
  const { counters } = queue(UNBOUNDED_RUN);
  machine.cores[1]!.step(10);
  expect(counts(counters)).toEqual([1]);
  expect(words.map((word) => machine.words[word])).toEqual([1, 0]);
  machine.drain([stream]);
});
