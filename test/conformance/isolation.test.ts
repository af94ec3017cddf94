/** A fault in context A leaves every byte and task of context B as it would have been; A is reset and used again. */
import { AclError, type Context, Device, type DeviceBuffer, type DeviceOptions, type Event } from "npurt";
import { Probe } from "../../dist/asm/abi/task";
import { ramp } from "./drivers";
import { copy, executorOf, handMade, probe } from "./programs";

const COUNT = 64;
const BYTES = 4 * COUNT;
const ROUNDS = 24;

interface Kind {
  readonly name: string;
  readonly code: number;
  /** Submits to context A what goes wrong; for the run without a fault, what takes its place. */
  readonly submit: (context: Context, word: DeviceBuffer, faulty: boolean) => void;
  readonly only?: DeviceOptions["driver"];
}

const launch = (bad: "unreachable" | "outOfBounds" | "divideByZero" | "runaway" | "runawayPolling"): Kind["submit"] => {
  return (context, _word, faulty) => context.createStream().launch({ probe: faulty ? bad : "nothing" });
};

const KINDS: readonly Kind[] = [
  { name: "a trap", code: 507015, submit: launch("unreachable") },
  { name: "a division by zero", code: 507015, submit: launch("divideByZero") },
  { name: "an address outside memory", code: 507042, submit: launch("outOfBounds") },
  {
    name: "a wait that times out",
    code: 107020,
    submit: (context, word, faulty) => context.createStream().waitValue(word.address, faulty ? 1n : 0n, { compare: "==", timeoutMs: 5 }),
  },
  { name: "a runaway kernel that polls", code: 507014, submit: launch("runawayPolling"), only: "threads" },
  { name: "a runaway kernel whose core is killed", code: 507014, submit: launch("runaway"), only: "threads" },
];

interface Trace {
  readonly bytes: readonly Uint8Array[];
  /** Rounds of B by the device's time of their events. They are a chain over three streams, so it has to be the order of the calls. */
  readonly order: readonly number[];
}

/** Three streams of B that copy, mix, fill, wait for each other and run a program; everything that could show a lost, doubled or swapped task. */
async function workOf(device: Device, context: Context, between: (round: number) => void): Promise<Trace> {
  const streams = [context.createStream(), context.createStream({ priority: 1 }), context.createStream()];
  const buffers = streams.map(() => device.allocate(BYTES));
  const words = device.allocate(64);
  const executor = executorOf(device, handMade([[copy], [probe(Probe.COUNT, 0, COUNT)], [copy], [probe(Probe.COUNT, 0, COUNT, "count")]], COUNT));
  for (const [i, buffer] of buffers.entries()) await buffer.write(ramp(COUNT, 1000 * i));
  await words.write(new Uint8Array(64));
  const events: Event[] = [];
  const seen: Promise<unknown>[] = [];
  const results: Uint8Array[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    between(round);
    const stream = streams[round % 3]!;
    const [own, next] = [buffers[round % 3]!, buffers[(round + 1) % 3]!];
    if (round > 0) stream.wait(events[round - 1]!);
    stream.launch({ probe: "mix", argument: round, address: words.address });
    stream.memcpy(next, own, BYTES / 2);
    stream.memset(own, round, 16);
    const event = context.createEvent();
    stream.record(event);
    events.push(event);
    seen.push(
      executor.run({ x: ramp(COUNT, round) }, { stream }).then(({ y }) => {
        results[round] = new Uint8Array(y!.data.buffer, y!.data.byteOffset, BYTES);
      }),
    );
  }
  await Promise.all(seen);
  await context.synchronize();
  for (const buffer of [...buffers, words]) results.push(await buffer.read());
  executor.dispose();
  const times = events.map((event) => event.timestampUs());
  const order = events.map((_, round) => round).sort((one, other) => times[one]! - times[other]!);
  return { bytes: results, order };
}

async function scene(options: DeviceOptions, kind: Kind, faulty: boolean): Promise<Trace & { failures: number; again: Uint8Array }> {
  const device = await Device.open({ memoryBytes: 64 << 20, watchdogMs: 40, ...options });
  try {
    await device.ready();
    const [a, b] = [device.createContext(), device.createContext()];
    const word = device.allocate(BYTES);
    await word.write(new Uint8Array(BYTES));
    a.setFailureMode("STOP");
    const trace = await workOf(device, b, (round) => {
      // Killing a core takes its 40 ms: once is enough.
      if (round % 8 === 3 && (kind.name.includes("killed") ? round === 3 : true)) {
        try {
          kind.submit(a, word, faulty);
        } catch (error) {
          if (!(error instanceof AclError) || error.code !== kind.code) throw error; // it is stopped: what it was stopped by
        }
      }
    });
    const codes: number[] = [];
    await a.synchronize().catch((error: AclError) => codes.push(error.code));
    expect(codes).toEqual(faulty ? [kind.code] : []);
    await a.reset();
    const stream = a.createStream();
    stream.memset(word, 9);
    await stream.synchronize();
    return { ...trace, failures: codes.length, again: await word.read() };
  } finally {
    await device.close({ timeoutMs: 0 });
  }
}

const DRIVERS: readonly DeviceOptions[] = [
  { driver: "inline" },
  ...[3, 17, 4242].map((seed): DeviceOptions => ({ driver: "sim", cores: 3, seed, faults: { stall: 0.05, skippedWakeUp: 0.2 } })),
  { driver: "threads", cores: 2 },
];

for (const kind of KINDS) {
  for (const options of DRIVERS.filter(({ driver }) => kind.only === undefined || driver === kind.only)) {
    const where = options.seed === undefined ? options.driver : `${options.driver}, seed ${options.seed}`;
    test(`${kind.name} in context A is nothing to context B (${where})`, async () => {
      const sound = await scene(options, kind, false);
      const hurt = await scene(options, kind, true);
      expect([sound.failures, hurt.failures]).toEqual([0, 1]);
      expect(hurt.order).toEqual(sound.order);
      expect(hurt.bytes.length).toBe(sound.bytes.length);
      for (const [i, bytes] of sound.bytes.entries()) expect(Buffer.compare(hurt.bytes[i]!, bytes)).toBe(0);
      for (const { again } of [sound, hurt]) expect(again.every((byte) => byte === 9)).toBe(true);
    }, 30_000);
  }
}

test("a bad address that the runtime can check is refused at the call, and context B never hears of it", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const [a, b] = [device.createContext(), device.createContext()];
  const [mine, freed] = [device.allocate(64), device.allocate(64)];
  const gone = freed.address;
  freed.dispose();
  await device.synchronize();
  const stream = a.createStream();
  const refused = (target: number): void => {
    expect(() => stream.memset(target, 1, 64)).toThrow(expect.objectContaining({ code: 107000 }));
  };
  for (const target of [gone, 64, 2 ** 44 + 1, mine.address + 32, 99 * 2 ** 32]) refused(target);
  const other = b.createStream();
  other.memset(mine, 5);
  await Promise.all([other.synchronize(), stream.synchronize()]);
  expect([...(await mine.read())]).toEqual(new Array(64).fill(5));
  await device.close();
});
