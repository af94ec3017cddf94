/** Copies whose addresses stand in device memory, cache hints, batches every way. */
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "./harness";

const { rt } = acl;
let stream: number;
beforeEach(() => {
  start();
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
});
afterEach(finish);

function upload(...values: number[]): number {
  const data = Int32Array.from(values);
  const place = ok(rt.malloc(Math.max(64, data.byteLength), 0));
  ok(rt.memcpy(place, data.byteLength, data, data.byteLength, 1));
  return place;
}
function read(place: number, count = 1): number[] {
  const data = new Int32Array(count);
  ok(rt.memcpy(data, 4 * count, place, 4 * count, 2));
  return [...data];
}
/** Device memory with addresses in it. */
function pointers(...addresses: number[]): number {
  const data = BigUint64Array.from(addresses.map(BigInt));
  const place = ok(rt.malloc(64, 0));
  ok(rt.memcpy(place, data.byteLength, data, data.byteLength, 1));
  return place;
}
/** A stream that waits until `open`. */
function gate(on: number): { open(): void } {
  const word = upload(0, 0);
  ok(rt.value_wait(word, 1, 1, on));
  return { open: () => ok(rt.memcpy(word, 8, BigInt64Array.of(1n), 8, 1)) };
}

describe("copies by descriptor", () => {
  const descriptor = (source: number, target: number, bytes: number): number => {
    const size = ok(rt.get_memcpy_desc_size(3));
    const desc = ok(rt.malloc(size, 0));
    ok(rt.set_memcpy_desc(desc, 3, source, target, bytes, 0));
    return desc;
  };

  test("what stands in the descriptor when the task runs counts", () => {
    covers("rt.get_memcpy_desc_size", "rt.set_memcpy_desc", "rt.memcpy_async_with_desc");
    const [a, b, target] = [upload(1, 2), upload(3, 4), upload(0, 0)];
    const desc = descriptor(a, target, 8);
    ok(rt.memcpy_async_with_desc(desc, 3, stream));
    ok(rt.synchronize_stream(stream));
    expect(read(target, 2)).toEqual([1, 2]);
    const held = gate(stream);
    ok(rt.memcpy_async_with_desc(desc, 3, stream));
    ok(rt.set_memcpy_desc(desc, 3, b, target + 4, 4, 0)); // after the call, before the task
    held.open();
    ok(rt.synchronize_stream(stream));
    expect(read(target, 2)).toEqual([1, 3]);
  });

  test.each([
    ["the address of another device", (own: number) => own + 2 ** 32],
    ["a number that is no address", () => 12345],
    ["the device's own tables", (own: number) => Math.floor(own / 2 ** 32) * 2 ** 32 + 0x10000],
    ["beyond the memory", (own: number) => Math.floor(own / 2 ** 32) * 2 ** 32 + 2 ** 32 - 64],
  ])("%s is a fault of the task, and nothing is copied", (_, make) => {
    const target = upload(5);
    const desc = descriptor(make(target), target, 64);
    ok(rt.memcpy_async_with_desc(desc, 3, stream));
    expect(rt.synchronize_stream(stream)).toBe(507042);
    ok(rt.set_memcpy_desc(desc, 3, target, make(target), 64, 0));
    ok(rt.memcpy_async_with_desc(desc, 3, stream));
    expect(rt.synchronize_stream(stream)).toBe(507042);
    expect(read(target)).toEqual([5]);
    expect(rt.synchronize_stream(stream)).toBe(0);
  });

  test("other kinds, host memory and short memory are refused at once", () => {
    const desc = descriptor(upload(1), upload(2), 4);
    expect(codeOf(rt.get_memcpy_desc_size(1))).toBe(107000);
    expect(rt.memcpy_async_with_desc(desc, 2, stream)).toBe(107000);
    expect(rt.memcpy_async_with_desc(desc + 4, 3, stream)).toBe(107000);
    expect(rt.set_memcpy_desc(ok(rt.malloc(8, 0)), 3, 1, 1, 1, 0)).toBe(107000);
  });
});

test("copies through pointers in device memory, moved on by offsets", () => {
  covers("rt.memcpy_async_with_offset");
  const [a, b, target] = [upload(1, 2, 3, 4), upload(5, 6, 7, 8), upload(0, 0, 0, 0)];
  const [to, from] = [pointers(target), pointers(a)];
  ok(rt.memcpy_async_with_offset(to, 16, 4, from, 8, 8, 3, stream));
  ok(rt.synchronize_stream(stream));
  expect(read(target, 4)).toEqual([0, 3, 4, 0]);
  const held = gate(stream);
  ok(rt.memcpy_async_with_offset(to, 16, 0, from, 4, 12, 3, stream));
  ok(rt.memcpy(from, 8, BigUint64Array.of(BigInt(b)), 8, 1)); // read when the task runs
  held.open();
  ok(rt.synchronize_stream(stream));
  expect(read(target, 4)).toEqual([8, 3, 4, 0]);
  expect(rt.memcpy_async_with_offset(to, 4, 0, from, 8, 0, 3, stream)).toBe(107000);
  expect(rt.memcpy_async_with_offset(to, 16, -4, from, 8, 0, 3, stream)).toBe(107000);
  ok(rt.memcpy_async_with_offset(pointers(0), 16, 0, from, 8, 0, 3, stream));
  expect(rt.synchronize_stream(stream)).toBe(507042);
});

describe("cache hints", () => {
  test("keep their place in the stream and check their range", () => {
    covers("rt.cmo_async");
    const place = upload(1);
    const held = gate(stream);
    for (const type of [0, 1, 2, 3]) ok(rt.cmo_async(place, 64, type, stream));
    const last = ok(rt.get_thread_last_task_id());
    expect(ok(rt.stream_query(stream))).toBe(1); // behind the gate
    held.open();
    ok(rt.synchronize_stream(stream));
    ok(rt.cmo_async(place, 64, 0, stream));
    expect(ok(rt.get_thread_last_task_id())).toBe(last + 1);
    expect(rt.cmo_async(place, 64, 4, stream)).toBe(107000);
    expect(rt.cmo_async(place, 65536, 0, stream)).toBe(107000);
    expect(rt.cmo_async(place, 0, 0, stream)).toBe(107000);
  });

  test("a barrier makes another stream wait for the hint", () => {
    covers("rt.cmo_async_with_barrier", "rt.cmo_wait_barrier");
    const [place, word] = [upload(1), upload(0, 0)];
    const other = ok(rt.create_stream());
    const held = gate(stream);
    ok(rt.cmo_async_with_barrier(place, 64, 0, 7, stream));
    ok(rt.cmo_wait_barrier([{ cmoType: 0, barrierId: 7 }], other));
    ok(rt.value_write(word, 9, 0, other));
    expect(ok(rt.stream_query(other))).toBe(1);
    expect(read(word)).toEqual([0]);
    held.open();
    ok(rt.synchronize_stream(other));
    expect(read(word)).toEqual([9]);
    expect(rt.cmo_wait_barrier([{ cmoType: 1, barrierId: 7 }], other)).toBe(107000);
    expect(rt.cmo_wait_barrier([], other)).toBe(107000);
    expect(rt.cmo_wait_barrier(new Array(7).fill({ cmoType: 0, barrierId: 7 }), other)).toBe(107000);
  });

  test("by descriptor: the range is read when the task runs", () => {
    covers("rt.cmo_async_with_desc");
    const size = ok(rt.get_memcpy_desc_size(3));
    const desc = ok(rt.malloc(size, 0));
    ok(rt.set_memcpy_desc(desc, 3, upload(1), 0, 64, 0));
    const held = gate(stream);
    ok(rt.cmo_async_with_desc(desc, size, 0, stream));
    ok(rt.set_memcpy_desc(desc, 3, 4096, 0, 64, 0)); // no address: shows that it is read later
    held.open();
    expect(rt.synchronize_stream(stream)).toBe(507042);
    ok(rt.set_memcpy_desc(desc, 3, upload(1), 0, 64, 0));
    ok(rt.cmo_async_with_desc(desc, size, 0, stream));
    ok(rt.synchronize_stream(stream));
    ok(rt.set_memcpy_desc(desc, 3, upload(1), upload(2), 4, 0));
    expect(rt.cmo_async_with_desc(desc, size, 0, stream)).toBe(107000); // that would be a copy
  });
});

test("batches of the second version go every way", () => {
  covers("rt.memcpy_batch_v2", "rt.memcpy_batch_async_v2");
  const [a, b, target] = [upload(1, 2, 3, 4), upload(5, 6), upload(0, 0, 0, 0)];
  const host = ok(rt.malloc_host(16));
  const attrs = [{}];
  const list = [[target, target + 8, host], [8, 8, 16], [a, b, a], [8, 8, 16], attrs, [0]] as const;
  expect(rt.memcpy_batch(...list)).toEqual([0, 107000]);
  ok(rt.memcpy_batch_v2(...list));
  expect(read(target, 4)).toEqual([1, 2, 5, 6]);
  ok(rt.memset(target, 16, 0, 16));
  expect(rt.memcpy_batch_async(...list, stream)).toEqual([0, 107000]);
  ok(rt.memcpy_batch_async_v2(...list, stream));
  ok(rt.synchronize_stream(stream));
  expect(read(target, 4)).toEqual([1, 2, 5, 6]);
  expect([...new Int32Array(Uint8Array.from(acl.util.ptr_to_bytes(host, 16)).buffer)]).toEqual([1, 2, 3, 4]);
  expect(rt.memcpy_batch_v2([target, target + 8], [8, 4], [a, b], [8, 8], attrs, [0])).toEqual([1, 107000]);
});
