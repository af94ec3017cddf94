/** How many cores work on a launch, and what becomes of queued launches when their kernel goes. */
import { Device, type HostBuffer, Kernel } from "npurt";
import { compileText, helperKernels } from "../../acl/kernels/build";

/** Counts how many blocks are inside at once: x[0] now, x[1] at most; x[2 + block] counts its runs. */
const PEAK = `
// @ts-ignore: decorator
@external("env", "block_index") declare function blockIndex(): u32;
export function Peak(x: usize): void {
  const now = atomic.add<i32>(x, 1) + 1;
  let most = atomic.load<i32>(x + 4);
  while (now > most) most = atomic.cmpxchg<i32>(x + 4, most, now);
  for (let i = 0; i < 200000; i++) atomic.load<i32>(x + 4);
  atomic.add<i32>(x + 8 + (<usize>blockIndex() << 2), 1);
  atomic.sub<i32>(x, 1);
}`;
const BLOCKS = 12;

let device: Device;
let words: HostBuffer;
beforeAll(async () => {
  device = await Device.open({ cores: 3, memoryBytes: 32 * 2 ** 20 });
  words = device.allocatePinned(4096);
});
afterAll(() => device.close());
beforeEach(() => words.bytes.fill(0));
const ints = (): Int32Array => words.view("int32") as Int32Array;

test.each([1, 2, undefined])("with cores %p no more blocks are at work, and each runs once", async (cores) => {
  const kernel = await Kernel.load(device, compileText(PEAK), { Peak: ["ptr"] });
  const stream = device.createStream();
  stream.launchKernel(kernel.function("Peak"), { args: [words], blocks: BLOCKS, ...(cores === undefined ? {} : { cores }) });
  await stream.synchronize();
  const [inside, most, ...runs] = ints().subarray(0, 2 + BLOCKS);
  expect(inside).toBe(0);
  expect(most).toBeGreaterThanOrEqual(1);
  expect(most).toBeLessThanOrEqual(cores ?? 3);
  expect(runs).toEqual(runs.map(() => 1));
  for (const wrong of [0, 1.5, -1, "2"]) {
    expect(() => stream.launchKernel(kernel.function("Peak"), { args: [words], cores: wrong as number })).toThrow(
      expect.objectContaining({ code: 107000 }),
    );
  }
  await kernel.dispose();
  await stream.destroy();
});

test("a kernel that is disposed takes no launches, runs those that are queued, and is gone when the last one has run", async () => {
  const kernel = await Kernel.load(device, helperKernels(), { EasyOP: ["ptr"], ErrorOP: ["ptr"] });
  const easy = kernel.function("EasyOP");
  const [held, failing] = [device.createStream(), device.createStream()];
  held.waitValue(words.address + 64, 1n);
  failing.waitValue(words.address + 64, 1n);
  for (let i = 0; i < 5; i++) held.launchKernel(easy, { args: [words] });
  failing.launchKernel(kernel.function("ErrorOP"), { args: [words] });
  const before = device.info().allocations;
  let gone = false;
  const disposed = kernel.dispose().then(() => {
    gone = true;
  });
  expect(() => kernel.function("EasyOP")).toThrow(expect.objectContaining({ code: 107017 }));
  expect(() => held.launchKernel(easy, { args: [words] })).toThrow(expect.objectContaining({ code: 107017 }));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([gone, ints()[0]]).toEqual([false, 0]);
  ints()[16] = 1; // the word at 64
  await disposed;
  expect(ints()[0]).toBe(5);
  expect(device.info().allocations).toBe(before - 1);
  await held.synchronize();
  await expect(failing.synchronize()).rejects.toMatchObject({ code: 507035 });
  await kernel.dispose();
});

test("a device that closes while launches are queued ends them", async () => {
  const own = await Device.open({ cores: 1, memoryBytes: 16 * 2 ** 20 });
  const kernel = await Kernel.load(own, helperKernels(), { Runaway: ["ptr"] });
  const stream = own.createStream();
  for (let i = 0; i < 3; i++) stream.launchKernel(kernel.function("Runaway"), { args: [own.allocatePinned(64)] });
  const told = stream.synchronize().catch((error: { code: number }) => error.code);
  await own.close({ timeoutMs: 0 });
  expect(await told).toBe(507899);
  await kernel.dispose();
  expect(() => kernel.function("Runaway")).toThrow(expect.objectContaining({ code: 507899 }));
});
