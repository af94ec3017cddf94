/** The same random multi-stream programs on sim and on threads leave the same bytes. */
import { Device, type HostBuffer, type Stream } from "npurt";
import { generator } from "../sim/machine";

const SEEDS = Number(process.env["NPURT_SEEDS"] ?? 10_000);
const STREAMS = 4;
const WORDS = 256;

interface Bench {
  readonly device: Device;
  readonly streams: Stream[];
  readonly memory: HostBuffer;
  readonly words: Uint32Array;
}

async function bench(driver: "sim" | "threads"): Promise<Bench> {
  const device = await Device.open({ driver, cores: 2, memoryBytes: 64 * 2 ** 20, firstSequence: 2 ** 32 - 100, seed: 99 });
  const streams = Array.from({ length: STREAMS }, (_, i) => device.createStream({ priority: i }));
  const memory = device.allocatePinned(WORDS * 4);
  return { device, streams, memory, words: memory.view("uint32") as Uint32Array };
}

/**
 * Every stream folds numbers into its own word. Now and then one publishes its word in a fresh slot and records an event, and another waits for it and
 * copies the slot: what it copies is fixed by the program, whatever the schedule.
 */
function queue(seed: number, { device, streams, memory, words }: Bench): number {
  const random = generator(seed);
  words.fill(0);
  let slot = STREAMS;
  const at = (word: number) => memory.address + word * 4;
  const count = 8 + random(24);
  const event = device.createEvent();
  for (let i = 0; i < count; i++) {
    const s = random(STREAMS);
    const stream = streams[s]!;
    if (random(3) || slot + 2 > WORDS) {
      stream.launch({ probe: "mix", argument: random(2 ** 30), address: at(s) });
    } else {
      stream.memcpy(at(slot), at(s), 4);
      stream.record(event);
      const reader = random(STREAMS);
      streams[reader]!.wait(event);
      streams[reader]!.memcpy(at(slot + 1), at(slot), 4);
      if (random(2)) streams[reader]!.launch({ probe: "spin", argument: random(2000) });
      slot += 2;
    }
  }
  event.dispose();
  return count;
}

test(`${SEEDS} programs`, async () => {
  const [sim, threads] = [await bench("sim"), await bench("threads")];
  let different = 0;
  let tasks = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    tasks += queue(seed, sim);
    queue(seed, threads);
    for (const { streams } of [sim, threads]) for (const stream of streams) stream.synchronizeSync();
    if (Buffer.compare(Buffer.from(sim.words.slice().buffer), Buffer.from(threads.words.slice().buffer)) !== 0) different++;
  }
  expect(different).toBe(0);
  expect(tasks).toBeGreaterThan(SEEDS * 8);
  await sim.device.close();
  await threads.device.close();
}, 240_000);
