/** Kernels that trap, run away or are stopped: each has its code, nothing else is touched, nothing is lost. */
import { createHash } from "node:crypto";
import { type AclError, Device, type HostBuffer, Kernel, type Stream } from "npurt";
import { helperKernels } from "../../acl/kernels/build";

/** The long form runs more in a row: NPURT_LONG=1. */
const LONG = process.env.NPURT_LONG === "1";
const TRAPS = 1000;
const POLLING = LONG ? 100 : 20;
const RUNAWAYS = LONG ? 100 : 10;

let device: Device;
let kernel: Kernel;
let words: HostBuffer;

beforeAll(async () => {
  device = await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20, watchdogMs: 20_000 });
  const pointers = ["EasyOP", "ErrorOP", "LongOP", "Runaway", "RunawayPolling", "RunawayReading", "WaitFor", "Recurse"];
  kernel = await Kernel.load(device, helperKernels(), {
    ...Object.fromEntries(pointers.map((name) => [name, ["ptr"]])),
    DivideByZero: ["ptr", "u32"],
  });
  words = device.allocatePinned(4096);
});
afterAll(() => device.close());
beforeEach(() => words.bytes.fill(0));

const ints = (): Int32Array => words.view("int32") as Int32Array;
const failure = (work: Promise<void>): Promise<AclError> =>
  work.then(
    () => {
      throw new Error("nothing failed");
    },
    (error: AclError) => error,
  );

test.each([
  ["ErrorOP", [0], 507035, "executed an illegal instruction"],
  ["DivideByZero", [0, 0], 507035, "divided an integer by zero"],
  ["OutOfBounds", [], 507044, "outside the device's memory"],
  ["Recurse", [0], 507036, "overflowed its stack"],
] as const)("%s is reported once, by the next synchronize, with its code and its name", async (name, args, code, why) => {
  const stream = device.createStream();
  stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
  stream.launchKernel(kernel.function(name), { args: args.map((value, i) => (i === 0 ? words : value)), blocks: 3 });
  stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
  const error = await failure(stream.synchronize());
  expect(error.code).toBe(code);
  expect(error.message).toMatch(new RegExp(`block \\d of kernel "${name}" .*${why}`));
  expect(ints()[0]).toBe(2); // CONTINUE: what was queued behind it ran
  await stream.synchronize();
  await stream.destroy();
});

test.each(["RunawayPolling", "RunawayReading", "Runaway"])(
  "%s is stopped by its own time limit with 507034, and the next kernel runs",
  async (name) => {
    const stream = device.createStream();
    const killed = device.info().killedCores;
    stream.launchKernel(kernel.function(name), { args: [words], timeoutMs: 30 });
    stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
    const error = await failure(stream.synchronize());
    expect(error.code).toBe(507034);
    expect(error.message).toContain(`block 0 of kernel "${name}"`);
    expect(ints()[0]).toBe(1);
    expect(device.info().killedCores - killed).toBe(name === "Runaway" ? 1 : 0);
    await stream.destroy();
  },
);

test("without a limit of its own the device's watchdog stops it", async () => {
  const small = await Device.open({ cores: 1, memoryBytes: 16 * 2 ** 20, watchdogMs: 40 });
  const own = await Kernel.load(small, helperKernels(), { RunawayPolling: ["ptr"] });
  const stream = small.createStream();
  stream.launchKernel(own.function("RunawayPolling"), { args: [small.allocatePinned(64)] });
  expect((await failure(stream.synchronize())).code).toBe(507034);
  await small.close();
});

test("a kernel that polls is not touched by the end of another one of its context", async () => {
  const [slow, wild] = [device.createStream(), device.createStream()];
  slow.launchKernel(kernel.function("WaitFor"), { args: [words] });
  wild.launchKernel(kernel.function("RunawayPolling"), { args: [words.address + 64], timeoutMs: 30 });
  expect((await failure(wild.synchronize())).code).toBe(507034);
  // Whatever stopped the one must not stop those that follow it either.
  for (let i = 0; i < 5; i++) {
    wild.launchKernel(kernel.function("LongOP"), { args: [words.address + 128] });
  }
  await wild.synchronize();
  Atomics.store(ints(), 0, 1);
  await slow.synchronize();
  expect(ints()[32]).toBe(5);
  await slow.destroy();
  await wild.destroy();
});

test("context.poison stops what polls there, running and queued, until reset; other contexts go on", async () => {
  const context = device.createContext();
  const stream = context.createStream();
  const outside = device.createStream();
  stream.launchKernel(kernel.function("RunawayPolling"), { args: [words.address + 64] });
  stream.launchKernel(kernel.function("WaitFor"), { args: [words.address + 64] });
  outside.launchKernel(kernel.function("WaitFor"), { args: [words] });
  await new Promise((resolve) => setTimeout(resolve, 20));
  context.poison();
  const error = await failure(stream.synchronize());
  expect(error.failures.map(({ code }) => code)).toEqual([507034, 507034]);
  Atomics.store(ints(), 0, 1);
  await outside.synchronize();
  await context.reset();
  stream.launchKernel(kernel.function("LongOP"), { args: [words.address + 128] });
  await stream.synchronize();
  expect(ints()[32]).toBe(1);
  await context.destroy();
  await outside.destroy();
});

test("STOP: a trap stops the context with its code, and a reset makes it usable again", async () => {
  const context = device.createContext();
  const stream = context.createStream();
  stream.setFailureMode("STOP");
  stream.launchKernel(kernel.function("LongOP"), { args: [words] }); // what follows is queued before anything fails
  stream.launchKernel(kernel.function("ErrorOP"), { args: [words] });
  stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
  expect((await failure(stream.synchronize())).code).toBe(507035);
  expect(ints()[0]).toBe(1);
  expect(() => stream.launchKernel(kernel.function("EasyOP"), { args: [words] })).toThrow(expect.objectContaining({ code: 507035 }));
  await context.reset();
  stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
  await stream.synchronize();
  expect(ints()[0]).toBe(2);
  await context.destroy();
});

describe("in a row, beside a context that works on", () => {
  const BYTES = 65536;
  /** The neighbour's memory after `rounds` rounds of its work, by plain JavaScript. */
  const reference = (rounds: number): string => {
    const numbers = new Int32Array(BYTES / 4).map((_, i) => i);
    for (let round = 0; round < rounds; round++) {
      numbers[round % numbers.length]! += 1;
    }
    return createHash("sha256").update(new Uint8Array(numbers.buffer)).digest("hex");
  };

  async function beside(failing: (stream: Stream) => Promise<void>): Promise<void> {
    const neighbour = device.createContext();
    const steady = neighbour.createStream();
    const bytes = device.allocatePinned(BYTES);
    const numbers = bytes.view("int32") as Int32Array;
    numbers.set(numbers.map((_, i) => i));
    const stream = device.createStream();
    let rounds = 0;
    let stop = false;
    const work = (async () => {
      while (!stop || rounds < 100) {
        steady.launchKernel(kernel.function("EasyOP"), { args: [bytes.address + 4 * (rounds % numbers.length)] });
        rounds++;
        await steady.synchronize(); // throws if anything of the other context reached this one
      }
    })();
    try {
      await failing(stream);
    } finally {
      stop = true;
      await work;
    }
    expect(createHash("sha256").update(bytes.bytes).digest("hex")).toBe(reference(rounds));
    await stream.destroy();
    await neighbour.destroy();
    bytes.dispose();
  }

  test(`${TRAPS} trapping kernels: each 507035, every kernel between them runs, and nothing grows`, async () => {
    await beside(async (stream) => {
      stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
      await stream.synchronize();
      const before = device.info();
      for (let i = 0; i < TRAPS; i++) {
        stream.launchKernel(kernel.function("ErrorOP"), { args: [words] });
        stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
        expect((await failure(stream.synchronize())).code).toBe(507035);
      }
      expect(ints()[0]).toBe(TRAPS + 1);
      const after = device.info();
      expect([after.allocations, after.killedCores]).toEqual([before.allocations, before.killedCores]);
    });
  });

  test(`${POLLING} runaway kernels that poll: each 507034, no core is lost`, async () => {
    const killed = device.info().killedCores;
    await beside(async (stream) => {
      for (let i = 0; i < POLLING; i++) {
        stream.launchKernel(kernel.function("RunawayPolling"), { args: [words.address + 64], timeoutMs: 10 });
        stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
        expect((await failure(stream.synchronize())).code).toBe(507034);
      }
    });
    expect(ints()[0]).toBe(POLLING);
    expect(device.info().killedCores).toBe(killed);
  }, 120_000);

  test(`${RUNAWAYS} runaway kernels that do not poll: each 507034, and its core is replaced`, async () => {
    const { killedCores, allocations } = device.info();
    await beside(async (stream) => {
      for (let i = 0; i < RUNAWAYS; i++) {
        stream.launchKernel(kernel.function("Runaway"), { args: [words.address + 64], timeoutMs: 10 });
        stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
        expect((await failure(stream.synchronize())).code).toBe(507034);
      }
    });
    await device.ready();
    expect(ints()[0]).toBe(RUNAWAYS);
    expect(device.info().killedCores).toBe(killedCores + RUNAWAYS);
    expect(device.info().allocations).toBeLessThanOrEqual(allocations + 4); // the neighbour's memory and rings, nothing per kernel
  }, 300_000);
});
