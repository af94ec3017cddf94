/** Launching kernels: what blocks, arguments, static data, stacks and prints come to. */
import { type AclError, Device, type DeviceBuffer, type HostBuffer, Kernel, type KernelArg, type Stream } from "npurt";
import { helperKernels, helperKernelsInC } from "../../acl/kernels/build";

const FLOATS = 1000;
const SIGNATURES = {
  AddDo: ["ptr", "ptr", "ptr", "u32"],
  CountBlocks: ["ptr"],
  Echo: ["ptr", "i32", "u32", "i64", "u64", "f32", "f64"],
  SumBytes: ["ptr", "u32", "ptr"],
  PrintText: ["ptr", "u32"],
} as const;

const printed: [string, number][] = [];
let device: Device;
let stream: Stream;
let kernel: Kernel;
let inC: Kernel;
let words: HostBuffer;

beforeAll(async () => {
  device = await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20 });
  stream = device.createStream();
  const print = (text: string, block: number): void => void printed.push([text, block]);
  kernel = await Kernel.load(device, helperKernels(), SIGNATURES, { print });
  inC = await Kernel.load(device, helperKernelsInC(), { AddDo: SIGNATURES.AddDo }, { print });
  words = device.allocatePinned(64 * 1024);
});
afterAll(() => device.close());
beforeEach(() => words.bytes.fill(0));

const ints = (): Int32Array => words.view("int32") as Int32Array;
const run = async (name: string, args: readonly KernelArg[] = [], blocks = 1, from = kernel): Promise<void> => {
  stream.launchKernel(from.function(name), { args, blocks });
  await stream.synchronize();
};

test("the helper kernels do what their names say, in stream order", async () => {
  stream.launchKernel(kernel.function("WriteDo"), { args: [words, 20] });
  stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
  stream.launchKernel(kernel.function("ShortOP"), { args: [words] });
  stream.launchKernel(kernel.function("LongOP"), { args: [words] });
  stream.launchKernel(kernel.function("ReadDo"), { args: [words, words.address + 4] });
  await stream.synchronize();
  expect([...ints().subarray(0, 3)]).toEqual([43, 43, 0]); // (20 + 1) * 2 + 1
});

describe.each(["AssemblyScript", "C"])("AddDo in %s", (language) => {
  test.each([1, 2, 4])("on %i cores: every float exact, whatever the number of blocks", async (cores) => {
    const other = await Device.open({ cores, memoryBytes: 32 * 2 ** 20 });
    const add = await Kernel.load(other, language === "C" ? helperKernelsInC() : helperKernels(), { AddDo: SIGNATURES.AddDo });
    const x = Float32Array.from({ length: FLOATS }, (_, i) => Math.sin(i) * 1e3);
    const y = Float32Array.from({ length: FLOATS }, (_, i) => Math.cos(3 * i));
    const [a, b, c] = [x, y, x].map((data) => other.allocate(data.byteLength)) as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
    await a.write(x);
    await b.write(y);
    const expected = x.map((value, i) => Math.fround(value + y[i]!)); // both are exact in float64, so one rounding is the true sum
    const work = other.createStream();
    for (const blocks of [1, 2, 3, 7, 64, 1500]) {
      work.memset(c, 0xff);
      work.launchKernel(add.function("AddDo"), { args: [a, b, c, FLOATS], blocks });
      await work.synchronize();
      expect(await c.read(new Float32Array(FLOATS))).toEqual(expected);
    }
    await other.close();
  });
});

test.each([1, 2, 5, 4000])("%i blocks: each runs once", async (blocks) => {
  const counts = device.allocatePinned(4 * (blocks + 16));
  const view = counts.view("uint32") as Uint32Array;
  view.fill(0);
  await run("CountBlocks", [counts], blocks);
  expect([...view]).toEqual([...new Array<number>(blocks).fill(1), ...new Array<number>(16).fill(0)]);
  counts.dispose();
});

test("every type of argument arrives as it was given", async () => {
  await run("Echo", [words, -5, 4_000_000_000, -(2n ** 62n), 2n ** 64n - 1n, 1.1, Math.PI]);
  const view = new DataView(words.bytes.buffer, words.bytes.byteOffset);
  const found = [
    view.getInt32(0, true),
    view.getUint32(8, true),
    view.getBigInt64(16, true),
    view.getBigUint64(24, true),
    view.getFloat32(32, true),
    view.getFloat64(40, true),
  ];
  expect(found).toEqual([-5, 4_000_000_000, -(2n ** 62n), 2n ** 64n - 1n, Math.fround(1.1), Math.PI]);
});

test.each([1, 7, 3000, 200_000])("an array of %i bytes travels with the launch: later writes to it do not matter", async (size) => {
  const data = new Uint8Array(size).map((_, i) => i * 7);
  const expected = data.reduce((sum, byte) => sum + byte, 0);
  stream.launchKernel(kernel.function("LongOP"), { args: [words.address + 64] }); // keeps the stream busy while the array changes
  stream.launchKernel(kernel.function("SumBytes"), { args: [data, size, words] });
  data.fill(255);
  await stream.synchronize();
  expect(ints()[0]).toBe(expected);
});

test("pinned memory, its views, plain addresses and null name the same bytes as ever", async () => {
  words.bytes.fill(3, 256, 512);
  for (const data of [words.bytes.subarray(256, 512), words.address + 256, device.at(words.address + 256, 256)]) {
    await run("SumBytes", [data, 256, words]);
    expect(ints()[0]).toBe(768);
  }
  await run("SumBytes", [null, 0, words]);
  expect(ints()[0]).toBe(0);
});

test("static data of C is written once and shared by all cores; a core that comes later finds what the others left", async () => {
  const seen: number[] = [];
  for (let i = 0; i < 20; i++) {
    await run("CountLaunches", [words], 1, inC);
    seen.push(ints()[0]!);
  }
  expect(seen).toEqual(Array.from({ length: 20 }, (_, i) => 101 + i));
});

test("each core has a stack of its own, and a trap does not shift it", async () => {
  const weights = [3, 5, 7, 11];
  const sum = (seed: number): number => Array.from({ length: 64 }, (_, i) => (seed + i) * weights[i % 4]!).reduce((a, b) => a + b);
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 200; i++) {
      stream.launchKernel(inC.function("TrapOnStack"), { args: [1] });
    }
    await expect(stream.synchronize()).rejects.toMatchObject({ code: 507035 });
    await run("UseStack", [words, round], 32, inC);
    expect([...ints().subarray(0, 33)]).toEqual([...new Array<number>(32).fill(sum(round)), 0]);
  }
});

describe("print", () => {
  beforeEach(() => void (printed.length = 0));

  test("a message per block, told when the stream is synchronized", async () => {
    stream.launchKernel(kernel.function("PrintHello"), { blocks: 12 });
    await stream.synchronize();
    expect(printed.sort((a, b) => a[1] - b[1])).toEqual(Array.from({ length: 12 }, (_, block) => [`Hello World ${block}\n`, block]));
  });

  test("from C, to the sink of its own binary", async () => {
    await run("PrintHello", [], 1, inC);
    expect(printed).toEqual([["Hello from C\n", 0]]);
  });

  test.each([0, 1, 239, 240, 241, 2000, 3840])("%i bytes arrive whole", async (size) => {
    const text = Array.from({ length: size }, (_, i) => String.fromCharCode(97 + (i % 26))).join("");
    await run("PrintText", [Buffer.from(`${text}!`), size]);
    expect(printed).toEqual([[text, 0]]);
  });

  test("more than the ring holds: the newest are there, in whole messages", async () => {
    const text = "x".repeat(500); // three slots each
    const buffer = device.allocatePinned(512);
    buffer.bytes.set(Buffer.from(text));
    for (let i = 0; i < 1000; i++) {
      stream.launchKernel(kernel.function("PrintText"), { args: [buffer, 500] });
    }
    await stream.synchronize();
    expect(printed.length).toBeGreaterThanOrEqual(340); // 1,024 slots
    expect(printed.length).toBeLessThan(1000);
    expect(new Set(printed.map(([each]) => each))).toEqual(new Set([text]));
    buffer.dispose();
  });

  test("an address outside the memory is a fault, no message", async () => {
    stream.launchKernel(kernel.function("PrintText"), { args: [null, 2 ** 31] });
    await expect(stream.synchronize()).rejects.toMatchObject({ code: 507044 });
    expect(printed).toEqual([]);
  });
});

const refused = (launch: () => void): unknown => {
  try {
    launch();
  } catch (error) {
    return [(error as AclError).code, (error as AclError).message];
  }
  return "accepted";
};

test("wrong launches are refused at the call", async () => {
  const fn = kernel.function("SumBytes");
  const args = [words, 1, words];
  const launch = (options: object, on = stream): unknown => refused(() => on.launchKernel(fn, options as never));
  expect(launch({ args: args.slice(1) })).toEqual([107000, expect.stringContaining("2 arguments, and the function takes 3: (ptr, u32, ptr)")]);
  expect(launch({ args: [words, "1", words] })).toEqual([107000, expect.stringContaining("argument 1 must be a number (u32), not string")]);
  expect(launch({ args: [words, 2 ** 32, words] })).toEqual([107000, expect.stringContaining("argument 1 is 4294967296")]);
  expect(launch({ args: [words, words, words] })).toEqual([107000, expect.stringContaining("argument 1")]);
  expect(launch({ args: [12345, 1, words] })).toEqual([107000, expect.stringContaining("neither a device address nor")]);
  for (const blocks of [0, -1, 1.5, 2 ** 24 + 1]) {
    expect(launch({ args, blocks })).toEqual([107000, expect.stringContaining("blocks; pass 1 to")]);
  }
  expect(launch({ args, timeoutMs: 0 })).toEqual([107000, expect.stringContaining("timeoutMs")]);
  expect(launch({ args, block: 2 })).toEqual([107000, expect.stringContaining('did you mean "blocks"')]);
  expect(refused(() => stream.launchKernel({} as never))).toEqual([107000, expect.stringContaining("kernel.function(name)")]);
  const gone = device.allocate(64);
  gone.dispose();
  expect(launch({ args: [gone, 1, words] })).toEqual([107000, expect.stringContaining("disposed")]);
  const other = await Device.open({ cores: 1, memoryBytes: 16 * 2 ** 20 });
  expect(launch({ args: [null, 0, null] }, other.createStream())).toEqual([107000, expect.stringContaining("its binary is loaded on device")]);
  expect(launch({ args: [other.allocate(64), 1, words] })).toEqual([107000, expect.stringContaining("belongs to device")]);
  await other.close();
  expect(stream.query()).toBe(true); // nothing was queued
});

test("loading, launching and disposing again and again leaves no memory behind; a disposed kernel cannot be launched", async () => {
  const file = helperKernels();
  const cycle = async (): Promise<void> => {
    const own = await Kernel.load(device, file, SIGNATURES);
    const fn = own.function("CountBlocks");
    stream.launchKernel(fn, { args: [words], blocks: 4 });
    await own.dispose(); // waits for the launch
    expect(refused(() => stream.launchKernel(fn, { args: [words] }))).toEqual([107017, expect.stringContaining("unloaded")]);
  };
  await cycle();
  const before = device.info();
  for (let i = 0; i < 50; i++) {
    await cycle();
  }
  const after = device.info();
  expect([after.usedBytes, after.allocations]).toEqual([before.usedBytes, before.allocations]);
  expect([...ints().subarray(0, 5)]).toEqual([51, 51, 51, 51, 0]);
});
