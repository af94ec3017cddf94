/** Real cores: kernels that trap, kernels that never end. The other streams finish right, the code is reported, the next run is right, again and again. */
import { Device, type Stream } from "npurt";
import { Core, Layout, Phase } from "../../dist/asm/abi/device";
import { Frame } from "../../dist/asm/abi/stream";
import { Probe, TaskOp } from "../../dist/asm/abi/task";
import type { ThreadsDriver } from "../../lib/host/driver-threads";
import { coreOf } from "../../dist/lib/runtime/internals";
import { type DeviceMemory, frameOf, mix, type ProbeRegions, probeProgram } from "../sim/machine";

const ROUNDS = Number(process.env["NPURT_FAULTS"] ?? 1000);

/** A device with a context that faults and one that does not, and what the latter must have computed. */
class Scene {
  readonly bad: Stream;
  readonly good: Stream[];
  readonly memory: DeviceMemory;
  readonly #words: Uint32Array;
  readonly #address: number;
  readonly #expected: number[];
  readonly #sound: { readonly address: number; readonly data: number; readonly counters: number };
  #soundRuns = 0;

  constructor(readonly device: Device) {
    const { machine } = coreOf.device(device);
    this.memory = {
      words: machine.words,
      allocate: (bytes) => {
        const address = machine.allocate(bytes, 1, "test");
        machine.words.fill(0, address >> 2, (address + bytes + 3) >> 2);
        return address;
      },
    };
    this.bad = device.createContext().createStream();
    const context = device.createContext();
    this.good = [context.createStream(), context.createStream()];
    const pinned = device.allocatePinned(128);
    this.#words = pinned.view("uint32") as Uint32Array;
    this.#words.fill(0);
    this.#address = pinned.address;
    this.#expected = this.good.map(() => 0);
    const program = probeProgram(this.memory, [[[Probe.COUNT, 5, 0]], [[Probe.COUNT, 3, 0]], [[Probe.COUNT, 1, 0]]]);
    const data = this.memory.allocate(64);
    this.#sound = { address: frameOf(this.memory, program.address, data), data, counters: program.counters };
  }

  frame(regions: ProbeRegions): number {
    const { address, counters } = probeProgram(this.memory, regions);
    return frameOf(this.memory, address, this.memory.allocate(counters * 4));
  }

  run(frame: number): number {
    this.memory.words[(frame + Frame.STATUS) >> 2] = 1;
    return coreOf.stream(this.bad).submit(TaskOp.RUN, frame);
  }

  status(frame: number): number {
    return this.memory.words[(frame + Frame.STATUS) >> 2]!;
  }

  feed(round: number): void {
    this.good.forEach((stream, i) => {
      for (let k = 0; k < 10; k++) {
        stream.launch({ probe: "mix", argument: round + k, address: this.#address + 64 * i });
        this.#expected[i] = mix(this.#expected[i]!, round + k);
      }
    });
    coreOf.stream(this.good[0]!).submit(TaskOp.RUN, this.#sound.address);
    this.#soundRuns++;
  }

  /** Kills the core that is stuck in a tile of `stream`: same tile for two looks a millisecond apart. */
  async killCoreOf(stream: Stream): Promise<void> {
    const { machine } = coreOf.device(this.device);
    const beats = new Map<number, number>();
    for (;;) {
      for (let core = 0; core < 2; core++) {
        const at = (Layout.CORES + core * Core.SIZE) >> 2;
        const stuck = machine.words[at + (Core.STREAM >> 2)] === stream.id + 1 && machine.words[at + (Core.PHASE >> 2)] === Phase.KERNEL;
        const beat = machine.words[at + (Core.BEAT >> 2)]!;
        if (stuck && beats.get(core) === beat && (machine.driver as ThreadsDriver).killCore(core)) return;
        beats.set(core, beat);
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  async check(): Promise<void> {
    for (const stream of this.good) await stream.synchronize({ timeoutMs: 20_000 });
    expect(this.good.map((_, i) => this.#words[16 * i])).toEqual(this.#expected);
    const counts = this.memory.words.subarray(this.#sound.data >> 2, (this.#sound.data >> 2) + this.#sound.counters);
    expect([...counts]).toEqual(Array.from({ length: this.#sound.counters }, () => this.#soundRuns));
  }
}

test(`${ROUNDS} traps in the middle of a region`, async () => {
  const scene = new Scene(await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20, firstSequence: 2 ** 32 - 100 }));
  await scene.device.ready();
  const spin: [Probe, number, number] = [Probe.SPIN, 3, 500];
  const frames = [Probe.UNREACHABLE, Probe.OUT_OF_BOUNDS, Probe.DIVIDE_BY_ZERO].map((probe) => scene.frame([[spin, [probe, 1, 0], spin], [spin]]));
  const codes = [507015, 507042, 507015];
  const sound = scene.frame([[spin, spin], [spin]]);
  for (let round = 0; round < ROUNDS; round++) {
    scene.feed(round);
    scene.run(frames[round % 3]!);
    await expect(scene.bad.synchronize({ timeoutMs: 20_000 })).rejects.toMatchObject({ code: codes[round % 3] });
    expect(scene.status(frames[round % 3]!)).toBe(codes[round % 3]);
    scene.run(sound);
    await scene.bad.synchronize({ timeoutMs: 20_000 });
    expect(scene.status(sound)).toBe(0);
  }
  await scene.check();
  expect(scene.device.info()).toMatchObject({ coresUp: 2, killedCores: 0 });
  await scene.device.close();
}, 120_000);

test(`${ROUNDS} cores killed in the middle of a tile`, async () => {
  const scene = new Scene(await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20, firstSequence: 2 ** 32 - 100, helpBelowNs: 0 }));
  await scene.device.ready();
  const runaway = scene.frame([
    [
      [Probe.COUNT, 2, 0],
      [Probe.RUNAWAY, 1, 0],
      [Probe.COUNT, 2, 0],
    ],
    [[Probe.COUNT, 1, 0]],
  ]);
  const sound = scene.frame([[[Probe.COUNT, 4, 0]]]);
  for (let round = 0; round < ROUNDS; round++) {
    scene.feed(round);
    scene.run(runaway);
    await scene.killCoreOf(scene.bad);
    await expect(scene.bad.synchronize({ timeoutMs: 20_000 })).rejects.toMatchObject({ code: 507014 });
    expect(scene.status(runaway)).toBe(507014);
    scene.run(sound);
    await scene.bad.synchronize({ timeoutMs: 20_000 });
  }
  await scene.check();
  expect(scene.device.info().killedCores).toBe(ROUNDS);
  await scene.device.close();
}, 300_000);

test("an endless kernel that polls is stopped without losing its core", async () => {
  const scene = new Scene(await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20, watchdogMs: 20 }));
  await scene.device.ready();
  const polling = scene.frame([[[Probe.RUNAWAY_POLLING, 1, 0]]]);
  for (let round = 0; round < 50; round++) {
    scene.feed(round);
    scene.run(polling);
    await expect(scene.bad.synchronize({ timeoutMs: 20_000 })).rejects.toMatchObject({ code: 507014 });
  }
  await scene.check();
  expect(scene.device.info()).toMatchObject({ coresUp: 2, killedCores: 0 });
  await scene.device.close();
}, 60_000);
