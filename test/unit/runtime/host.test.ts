/** Parts of lib/host on their own: addresses, completions, thread records, parked memories, the generator of the sim. */
import { Layout, Thread } from "../../../dist/asm/abi/device";
import { Completions } from "../../../dist/lib/host/completions";
import { claimThread, hasOtherThreads, liveness, releaseThread, thisThread } from "../../../dist/lib/host/host-threads";
import { parkMemory, takeMemory } from "../../../dist/lib/host/memory";
import { Random } from "../../../dist/lib/host/random";
import { classify } from "../../../dist/lib/host/traps";
import { deviceAddress, hostAddress, placeOf } from "../../../dist/lib/runtime/address";

test("addresses tell the device and the byte, and nothing else passes for one", () => {
  expect(deviceAddress(3, 100)).toBe(19 * 2 ** 32 + 100);
  expect(hostAddress(3, 100)).toBe(2 ** 44 + 3 * 2 ** 32 + 100);
  for (const address of [deviceAddress(3, 100), hostAddress(3, 100)]) {
    expect(placeOf(address)).toEqual({ device: 3, offset: 100 });
  }
  for (const wrong of [0, 4096, 2 ** 36 - 1, -1, 2 ** 53, Number.NaN, 16 * 2 ** 32 + 0.5]) {
    expect(placeOf(wrong)).toBeUndefined();
  }
});

test("completions call back in sequence order, each once, and tell everybody of a loss", () => {
  const fences = [5, 5];
  const armed: [number, number][] = [];
  const arm = (stream: number, sequence: number): number => armed.push([stream, sequence]) & 0;
  const core = { fence: (stream: number) => fences[stream]!, arm };
  const completions = new Completions(core as never);
  const seen: string[] = [];
  const add = (stream: number, sequence: number): void =>
    completions.add(stream, sequence, (error) => seen.push(`${stream}:${sequence}${error === undefined ? "" : ` ${error.code}`}`));
  add(0, 9);
  add(0, 7);
  add(0, 8);
  add(1, 6);
  expect(completions.poll()).toBe(0);
  expect(completions.arm()).toBe(false);
  expect(armed).toEqual([
    [0, 7],
    [1, 6],
  ]);
  fences[0] = 8;
  expect(completions.poll()).toBe(2);
  expect(seen).toEqual(["0:7", "0:8"]);
  completions.fail({ code: 507899 } as never);
  expect(seen).toEqual(["0:7", "0:8", "0:9 507899", "1:6 507899"]);
  expect(completions.count).toBe(0);
});

test("thread records: claimed once, reclaimed from the dead only", () => {
  const buffer = new SharedArrayBuffer(Layout.FAULTS);
  const first = claimThread(buffer);
  const second = claimThread(buffer);
  expect([first, second]).toEqual([0, 1]);
  expect(hasOtherThreads(buffer, first)).toBe(true);
  expect(liveness(buffer, first)).not.toBe("dead");
  releaseThread(buffer, second);
  expect(hasOtherThreads(buffer, first)).toBe(false);
  expect(liveness(buffer, second)).toBe("dead");
  if (thisThread().tid === 0) {
    console.log("no /proc here: dead threads cannot be told from live ones");
    return;
  }
  const words = new Int32Array(buffer);
  new Float64Array(buffer, Layout.THREADS + Thread.BORN, 1)[0]! -= 1; // another thread had this id
  expect(liveness(buffer, first)).toBe("dead");
  for (let index = 1; index < 192; index++) {
    words[(Layout.THREADS + index * Thread.SIZE) >> 2] = 1; // all others taken, by nobody knows whom
  }
  expect(claimThread(buffer)).toBe(first);
  expect(() => claimThread(buffer)).toThrow(/at most 192 host threads/);
});

test("a parked memory comes back zeroed as far as it was used, and only to its size", () => {
  const size = 24 << 20;
  const memory = takeMemory(size);
  const bytes = new Uint8Array(memory.buffer);
  const dirty = [Layout.HEADER, Layout.POOL, Layout.HEAP, Layout.HEAP + 100_000];
  for (const at of dirty) {
    bytes[at] = 1;
  }
  parkMemory(memory, Layout.HEAP + 100_001);
  expect(takeMemory(size + 65536)).not.toBe(memory);
  expect(takeMemory(size)).toBe(memory);
  expect(dirty.map((at) => bytes[at])).toEqual([0, 0, 0, 0]);
  expect(() => takeMemory(1)).toThrow(/memoryBytes is 1/);
});

test("the generator repeats itself for a seed and differs between seeds", () => {
  const draw = (seed: number): number[] => {
    const random = new Random(seed);
    return Array.from({ length: 1000 }, () => random.below(10));
  };
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  expect(new Set(draw(0)).size).toBe(10);
  const random = new Random(3);
  expect([random.chance(0), random.chance(1)]).toEqual([false, true]);
});

test("real traps are classified", () => {
  const wat = (body: number[]): Uint8Array =>
    Uint8Array.of(
      0,
      97,
      115,
      109,
      1,
      0,
      0,
      0,
      1,
      4,
      1,
      96,
      0,
      0,
      3,
      2,
      1,
      0,
      7,
      5,
      1,
      1,
      102,
      0,
      0,
      10,
      body.length + 4,
      1,
      body.length + 2,
      0,
      ...body,
      11,
    );
  const trap = (body: number[]): unknown => {
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(wat(body))).exports as { f: () => void };
    try {
      f();
    } catch (error) {
      return error;
    }
    return undefined;
  };
  expect(classify(trap([0]))).toEqual([1, 507015]); // unreachable
  expect(classify(trap([65, 1, 65, 0, 109, 26]))).toEqual([3, 507015]); // 1 / 0
  expect(classify(trap([65, 0x80, 0x80, 0x80, 0x80, 0x78, 65, 0x7f, 109, 26]))).toEqual([4, 507015]); // INT_MIN / -1
  expect(classify(new RangeError("Maximum call stack size exceeded"))).toEqual([6, 507016]);
  expect(classify(new Error("else"))).toEqual([9, 507016]);
});
