/** Copies and fills on every driver. Expected bytes are computed here, with plain JavaScript. */
import { failureOf, onEachDriver, ramp } from "./drivers";

onEachDriver("bytes go to the device, across it, and back", async (device) => {
  const stream = device.createStream();
  const a = device.allocate(4000);
  const b = device.allocate(4000);
  const back = new Int32Array(1000);
  stream.memcpy(a, ramp(1000));
  stream.memcpy(b, a);
  stream.memcpy(back, b);
  await stream.synchronize();
  expect(back).toEqual(ramp(1000));
});

onEachDriver("pageable memory is taken at the call, and read in stream order", async (device) => {
  const stream = device.createStream();
  const buffer = device.allocate(400);
  const first = new Int32Array(100);
  const second = new Int32Array(100);
  const source = ramp(100);
  stream.nop(500); // the stream is busy, so nothing is copied in place
  stream.memcpy(buffer, source);
  source.fill(-1);
  stream.memcpy(first, buffer);
  stream.memcpy(buffer, ramp(100, 1000));
  stream.memcpy(second, buffer);
  await stream.synchronize();
  expect(first).toEqual(ramp(100));
  expect(second).toEqual(ramp(100, 1000));
});

onEachDriver("part copies by address", async (device) => {
  const stream = device.createStream();
  const buffer = device.allocate(64);
  stream.memset(buffer, 7);
  stream.memcpy(buffer.address + 8, Uint8Array.of(1, 2, 3), 3);
  stream.memcpy(buffer.address + 32, buffer.address + 8, 3);
  const bytes = await buffer.read();
  const expected = new Uint8Array(64).fill(7);
  expected.set([1, 2, 3], 8);
  expected.set([1, 2, 3], 32);
  await stream.synchronize();
  expect(await buffer.read()).toEqual(expected);
  expect(bytes.length).toBe(64);
});

onEachDriver("fills with patterns of 1, 2 and 4 bytes", async (device) => {
  const stream = device.createStream();
  const buffer = device.allocate(24);
  stream.memset(buffer, 0xab);
  stream.fill(buffer.address + 8, 0x1234, 2, 8);
  stream.fill(buffer.address + 16, 0xdeadbeef, 4, 8);
  await stream.synchronize();
  const expected = new DataView(new ArrayBuffer(24));
  for (let i = 0; i < 8; i++) {
    expected.setUint8(i, 0xab);
  }
  for (let i = 8; i < 16; i += 2) {
    expected.setUint16(i, 0x1234, true);
  }
  for (let i = 16; i < 24; i += 4) {
    expected.setUint32(i, 0xdeadbeef, true);
  }
  expect(await buffer.read()).toEqual(new Uint8Array(expected.buffer));
});

onEachDriver("2-D copies in all directions", async (device) => {
  const stream = device.createStream();
  const source = Uint8Array.from({ length: 60 }, (_, i) => i);
  const a = device.allocate(100);
  const b = device.allocate(100);
  stream.memset(a, 0);
  stream.memset(b, 0);
  stream.memcpy2d(a, 20, source, 10, 6, 5); // 5 rows of 6 bytes
  stream.memcpy2d(b.address + 1, 7, a, 20, 6, 5);
  const back = new Uint8Array(40).fill(255);
  stream.memcpy2d(back, 8, b.address + 1, 7, 6, 5);
  await stream.synchronize();
  const expected = new Uint8Array(40).fill(255);
  for (let row = 0; row < 5; row++) {
    for (let column = 0; column < 6; column++) {
      expected[row * 8 + column] = source[row * 10 + column]!;
    }
  }
  expect(back).toEqual(expected);
});

onEachDriver("strided copies transpose, slice, reverse, repeat", async (device) => {
  const stream = device.createStream();
  const source = device.allocate(4 * 12);
  await source.write(ramp(12)); // 3 x 4
  const target = device.allocate(4 * 12);
  const view = (dims: number[], strides?: number[], offsetBytes = 0) => ({
    address: source,
    dtype: "int32" as const,
    dims,
    offsetBytes,
    ...(strides ? { strides } : {}),
  });
  const read = async (dims: number[]): Promise<number[]> => {
    await stream.synchronize();
    const bytes = await target.read();
    return [
      ...new Int32Array(
        bytes.buffer,
        0,
        dims.reduce((x, y) => x * y, 1),
      ),
    ];
  };
  const into = (dims: number[]) => ({ address: target, dtype: "int32" as const, dims });
  stream.copy(into([4, 3]), view([4, 3], [4, 16]));
  expect(await read([4, 3])).toEqual([0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
  stream.copy(into([2, 2]), view([2, 2], [16, 4], 20));
  expect(await read([2, 2])).toEqual([5, 6, 9, 10]);
  stream.copy(into([12]), view([12], [-4], 44));
  expect(await read([12])).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  stream.copy(into([3, 4]), view([3, 4], [0, 4], 16));
  expect(await read([3, 4])).toEqual([4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7]);
});

onEachDriver("pinned memory is shared, not copied", async (device) => {
  const stream = device.createStream();
  const pinned = device.allocatePinned(16);
  const buffer = device.allocate(16);
  const view = pinned.view("int32") as Int32Array;
  view.set([1, 2, 3, 4]);
  stream.memcpy(buffer, pinned);
  stream.memcpy(view.subarray(0, 2), buffer.address + 8, 8);
  await stream.synchronize();
  expect([...view]).toEqual([3, 4, 3, 4]);
  expect(Math.floor(pinned.address / 2 ** 32)).toBe(4096 + device.id);
  expect(Math.floor(buffer.address / 2 ** 32)).toBe(16 + device.id);
});

onEachDriver("64-bit values are written in stream order", async (device) => {
  const stream = device.createStream();
  const buffer = device.allocate(16);
  stream.memset(buffer, 0);
  stream.writeValue(buffer.address + 8, 0x0123456789abcdefn);
  await stream.synchronize();
  expect([...new BigUint64Array((await buffer.read()).buffer)]).toEqual([0n, 0x0123456789abcdefn]);
  expect((await failureOf(() => stream.writeValue(buffer.address + 4, 1n))).code).toBe(107008);
});

onEachDriver("ranges that leave their allocation are refused, and the text names it", async (device) => {
  const stream = device.createStream();
  const buffer = device.allocate(100);
  const over = await failureOf(() => stream.memcpy(buffer.address + 40, new Uint8Array(64)));
  expect(over.code).toBe(107000);
  expect(over.message).toMatch(/target ends 4 bytes past the allocation of 100 bytes/);
  expect((await failureOf(() => stream.memcpy(buffer, new Uint8Array(101), 101))).message).toMatch(/1 bytes past its buffer of 100/);
  expect((await failureOf(() => stream.memset(buffer, 0, 101))).code).toBe(107000);
  expect((await failureOf(() => stream.memcpy(123, buffer, 4))).message).toMatch(/neither a device address/);
  expect((await failureOf(() => stream.memcpy(new Uint8Array(4), new Uint8Array(4)))).code).toBe(207000);
  expect((await failureOf(() => stream.memcpy(buffer, new Uint8Array(4), 8))).message).toMatch(/needs 8 bytes and the array has 4/);
  const foreign = (16 + 63) * 2 ** 32 + 4096;
  expect((await failureOf(() => stream.memcpy(buffer, foreign, 4))).message).toMatch(/belongs to device 63/);
  buffer.dispose();
  buffer.dispose();
  expect((await failureOf(() => stream.memcpy(buffer, new Uint8Array(4)))).message).toMatch(/disposed/);
  await stream.synchronize();
});

onEachDriver("copies between two devices", async (device) => {
  const { Device } = await import("npurt");
  const other = await Device.open({ driver: "inline", memoryBytes: 16 << 20 });
  const stream = device.createStream();
  const here = device.allocate(40);
  const there = other.allocate(40);
  await there.write(ramp(10));
  stream.nop(100);
  stream.memcpy(here, there);
  await stream.synchronize();
  expect(new Int32Array((await here.read()).buffer)).toEqual(ramp(10));
  await other.close();
});
