/** Locks of threads that died: whatever they had done is whole or nothing. */
import { Header, Layout } from "../../dist/asm/abi/device";
import { Stream } from "../../dist/asm/abi/stream";
import { Probe, Task, TaskOp } from "../../dist/asm/abi/task";
import { Machine, generator } from "./machine";

const DEAD = 78;

/** The state a thread leaves that dies inside `submit` after the step named. */
function dieInSubmit(machine: Machine, stream: number, word: number, after: "payload" | "ready" | "tail"): void {
  const sc = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
  const sequence = machine.host.tail(stream) + 1;
  const record = (machine.words[sc + (Stream.RING >> 2)]! + (sequence % 256) * 64) >> 2;
  machine.words[sc + (Stream.LOCK >> 2)] = DEAD;
  machine.words[record + (Task.OP >> 2)] = TaskOp.PROBE;
  machine.words[record + (Task.P0 >> 2)] = Probe.MIX;
  machine.words[record + (Task.P1 >> 2)] = 41;
  machine.words[record + (Task.P2 >> 2)] = word;
  if (after === "payload") return;
  machine.words[record] = sequence;
  if (after === "ready") return;
  const tail = new BigUint64Array(machine.memory.buffer, sc * 4 + Stream.TAIL, 1);
  tail[0] = BigInt(sequence);
}

test.each([
  ["payload", 0],
  ["ready", 1],
  ["tail", 1],
] as const)("a submitter that dies after the %s leaves %i task", (after, tasks) => {
  const machine = new Machine({ cores: 1, seed: 2 });
  const stream = machine.stream(machine.context());
  const word = machine.allocate(64);
  const before = machine.host.tail(stream);
  dieInSubmit(machine, stream, word, after);
  expect(machine.host.submit(stream, TaskOp.NOP, 0, 0, 0, 0, 0, 0)).toBe(-2);
  const lock = Layout.STREAMS + stream * Stream.SIZE + Stream.LOCK;
  expect(machine.host.takeOver(lock, DEAD + 1, 0)).toBe(0);
  expect(machine.host.takeOver(lock, DEAD, 0)).toBe(1);
  machine.drain([stream]);
  expect(machine.host.tail(stream)).toBe(before + tasks);
  expect(machine.words[word >> 2]).toBe(tasks * 41);
  expect(machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, 1, word, 0, 0, 0)).toBe(before + tasks + 1);
  machine.drain([stream]);
  expect(machine.words[word >> 2]).toBe(tasks * 41 * 31 + 1);
});

interface Live {
  readonly address: number;
  readonly bytes: number;
  readonly fill: number;
}

/** Random allocations checked against a model: no overlap, contents kept, statistics exact, all memory back at the end. */
function exercisePool(machine: Machine, seed: number, rounds: number, between: () => void): void {
  const random = generator(seed);
  const live: Live[] = [];
  const start = { count: machine.host.poolCount(), live: machine.host.poolLive() >>> 0, free: machine.host.poolFree() >>> 0 };
  for (let i = 0; i < rounds; i++) {
    if (live.length && random(5) < 2) {
      const [block] = live.splice(random(live.length), 1) as [Live];
      const words = machine.words.subarray(block.address >> 2, (block.address >> 2) + (block.bytes >> 2));
      expect(words.every((w) => w === block.fill)).toBe(true);
      expect(machine.host.release(block.address)).toBe(1);
      expect(machine.host.release(block.address)).toBe(0);
    } else {
      const bytes = 1 + random(random(4) ? 5000 : 200_000);
      const address = machine.host.allocate(bytes, 1, i) >>> 0;
      if (address === 0) continue;
      expect(address % 64).toBe(0);
      const fill = random(2 ** 31);
      machine.words.fill(fill, address >> 2, (address >> 2) + (bytes >> 2));
      live.push({ address, bytes, fill });
    }
    if (random(50) === 0) between();
  }
  const charged = live.reduce((sum, block) => sum + (((block.bytes + 31) & ~31) + 32), 0);
  expect((machine.host.poolLive() >>> 0) - start.live).toBe(charged);
  expect(machine.host.poolCount() - start.count).toBe(live.length);
  for (const block of live) {
    expect(machine.host.allocationOf(block.address + block.bytes - 1) >>> 0).toBe(block.address);
    expect(machine.host.allocationBytes(block.address) >>> 0).toBe(block.bytes);
    expect(machine.host.release(block.address)).toBe(1);
  }
  expect(machine.host.poolFree() >>> 0).toBe(start.free);
  expect(machine.host.poolLive() >>> 0).toBe(start.live);
}

test("the pool keeps every block apart and gets all memory back", () => {
  for (let seed = 1; seed <= 6; seed++) exercisePool(new Machine({ cores: 1, seed, pages: 256 }), seed, 2000, () => {});
});

test("the pool rebuilds its lists when a thread dies inside it", () => {
  for (let seed = 1; seed <= 4; seed++) {
    const machine = new Machine({ cores: 1, seed, pages: 256 });
    const lock = Layout.HEADER + Header.POOL_LOCK;
    exercisePool(machine, seed, 1000, () => {
      // its lists, bitmaps and sums in ruins; only the chain of blocks stands
      machine.words.fill(0xdead, (Layout.POOL + 24) >> 2, (Layout.POOL + 256 + 24 * 64) >> 2);
      machine.words[lock >> 2] = DEAD;
      expect(machine.host.allocate(64, 1, 0)).toBe(1);
      expect(machine.host.takeOver(lock, DEAD, 2)).toBe(1);
    });
  }
});

test("allocations answer CANN's charge and refuse what cannot be", () => {
  const machine = new Machine({ cores: 1, seed: 1, pages: 256 });
  const charge = (bytes: number) => {
    const before = machine.host.poolLive();
    const address = machine.host.allocate(bytes, 1, 0) >>> 0;
    const cost = machine.host.poolLive() - before;
    machine.host.release(address);
    return cost;
  };
  expect([1, 32, 33, 64].map(charge)).toEqual([64, 64, 96, 96]); // cann.md 1.21, memory rounding vectors
  expect(machine.host.allocate(0, 1, 0)).toBe(0);
  expect(machine.host.allocate(2 ** 32 - 1, 1, 0)).toBe(0);
  const largest = machine.host.poolLargestFree() >>> 0;
  const all = machine.host.allocate(largest, 1, 0) >>> 0;
  expect(all).toBeGreaterThan(0);
  expect(machine.host.allocate(largest, 1, 0)).toBe(0);
  expect(machine.host.release(all + 64)).toBe(0);
  expect(machine.host.release(12)).toBe(0);
  expect(machine.host.release(all)).toBe(1);
});
