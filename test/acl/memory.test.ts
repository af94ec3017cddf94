/** Memory: rounding, limits, what an address is; copies and fills of every kind. */
import { acl } from "npurt/acl";
import { deviceIfOpen, Shared } from "../../dist/lib/acl/devices";
import { codeOf, covers, finish, ok, start } from "./harness";

const { rt, util } = acl;
afterEach(finish);

const free = (): number => (ok(rt.get_mem_info(1)) as readonly number[])[0] as number;
const pattern = (length: number, seed = 0): Uint8Array => Uint8Array.from({ length }, (_, i) => (i * 7 + seed) & 255);
const read = (address: number, size: number): number[] => {
  const bytes = new Uint8Array(size);
  ok(rt.memcpy(bytes, size, address, size, 2));
  return [...bytes];
};

describe("allocation", () => {
  test.each([
    ["malloc", 1, 64],
    ["malloc", 32, 64],
    ["malloc", 33, 96],
    ["malloc", 64, 96],
    ["malloc_align32", 1, 32],
    ["malloc_align32", 33, 64],
  ] as const)("%s(%i) is charged %i bytes, and free gives them back", (name, size, charged) => {
    covers("rt.malloc", "rt.malloc_align32", "rt.free", "rt.get_mem_info");
    start();
    ok(rt.set_device(0));
    const before = free();
    const address = ok(rt[name](size, 0));
    expect(address % 64).toBe(0);
    expect(before - free()).toBe(charged);
    ok(rt.free(address));
    expect(free()).toBe(before);
  });

  test("random sizes: aligned, apart, and all given back", () => {
    start();
    ok(rt.set_device(0));
    const before = free();
    let state = 12345;
    const blocks = Array.from({ length: 500 }, () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      const size = 1 + (state % 20_000);
      return { at: ok(rt.malloc(size, 2)), size };
    }).sort((a, b) => a.at - b.at);
    expect(blocks.every(({ at }) => at % 64 === 0)).toBe(true);
    expect(blocks.every(({ at, size }, i) => i + 1 === blocks.length || at + size <= (blocks[i + 1] as { at: number }).at)).toBe(true);
    for (const { at } of blocks) {
      ok(rt.free(at));
    }
    expect(free()).toBe(before);
  });

  test("bad sizes, policies and contexts; out of memory leaks nothing", () => {
    start();
    expect(codeOf(rt.malloc(64, 0))).toBe(107002);
    ok(rt.set_device(0));
    expect(codeOf(rt.malloc(0, 0))).toBe(107000);
    expect(codeOf(rt.malloc(-5, 0))).toBe(107000);
    expect(codeOf(rt.malloc(64, 8))).toBe(107018);
    expect(codeOf(rt.malloc(64, 0x101))).toBe(0);
    const before = free();
    expect(codeOf(rt.malloc(2 ** 40, 0))).toBe(207001);
    expect(codeOf(rt.malloc(31 * 2 ** 20, 0))).toBe(207001);
    expect(acl.get_recent_err_msg()).toMatch(/largest block has \d+/);
    expect(free()).toBe(before);
    expect(rt.malloc("64" as never, 0)).toEqual([0, 100000]);
    expect(acl.get_recent_err_msg()).toContain('acl.rt.malloc: argument size must be an integer, not string "64"');
    expect((rt.malloc as (size: number) => unknown)(64)).toEqual([0, 100000]);
    expect(acl.get_recent_err_msg()).toContain("acl.rt.malloc(size, policy) takes 2 arguments, not 1");
  });

  test("free says what is wrong with an address", () => {
    covers("rt.malloc_host", "rt.free_host", "rt.free_with_dev_sync", "rt.free_host_with_dev_sync");
    start();
    ok(rt.set_device(0));
    const address = ok(rt.malloc(100, 0));
    const host = ok(rt.malloc_host(100));
    expect(rt.free(0)).toBe(107000);
    expect(rt.free(address + 8)).toBe(107000);
    expect(acl.get_recent_err_msg()).toContain("8 bytes into an allocation");
    expect(rt.free(host)).toBe(107000);
    expect(acl.get_recent_err_msg()).toContain("looks like a host pointer");
    expect(rt.free_host(address)).toBe(107000);
    expect(rt.free(12345)).toBe(107000);
    ok(rt.memset(address + 8, 92, 1, 92));
    expect(rt.memset(address + 8, 93, 1, 93)).toBe(107000);
    const seen = ok(rt.malloc_host(8));
    const view = util.ptr_to_view(seen, 8).fill(0);
    ok(rt.value_write(seen, 1, 0, 0));
    expect(view[0]).toBe(0);
    ok(rt.free_with_dev_sync(address));
    expect(view[0]).toBe(1); // it has waited
    ok(rt.value_write(seen, 2, 0, 0));
    expect(rt.free(address)).toBe(107000);
    expect(acl.get_recent_err_msg()).toContain("freed before");
    expect(rt.memset(address + 8, 8, 1, 8)).toBe(107000); // it was good before, and is not any more
    const again = ok(rt.malloc(40, 0));
    expect([again, rt.memset(again + 8, 32, 1, 32), rt.memset(again + 8, 33, 1, 33)]).toEqual([address, 0, 107000]);
    ok(rt.free(again));
    ok(rt.free_host_with_dev_sync(host));
    expect(view[0]).toBe(2);
    expect(rt.free_host(host)).toBe(107000);
  });

  test("memory belongs to the device: another context frees it, and a reset gives all of it back", () => {
    start();
    ok(rt.set_device(0));
    const before = free();
    const address = ok(rt.malloc(1000, 0));
    ok(rt.create_context(0));
    ok(rt.free(address));
    for (let i = 0; i < 10; i++) {
      ok(rt.malloc(2 ** 20, 0));
    }
    ok(rt.reset_device_force(0));
    ok(rt.set_device(0));
    expect(free()).toBe(before);
    ok(rt.malloc(25 * 2 ** 20, 0)); // in one piece again
  });

  test("attributes: where an address points, its page, its allocation", () => {
    covers(
      "rt.pointer_get_attributes",
      "rt.check_mem_type",
      "rt.mem_get_address_range",
      "rt.malloc_with_cfg",
      "rt.malloc_for_task_scheduler",
      "rt.malloc_host_with_cfg",
    );
    start();
    ok(rt.set_device(1));
    const small = ok(rt.malloc(2 ** 20, 0));
    const large = ok(rt.malloc(2 ** 20 + 1, 0));
    const huge = ok(rt.malloc(100, 1));
    const host = ok(rt.malloc_host(100));
    const at = (address: number): unknown => {
      const { location, page_size } = ok(rt.pointer_get_attributes(address));
      return [location.type, location.id, page_size];
    };
    expect(at(small + 5)).toEqual([1, 1, 4096]);
    expect(at(large)).toEqual([1, 1, 2 ** 21]);
    expect(at(huge)).toEqual([1, 1, 2 ** 21]);
    expect(at(host)).toEqual([0, 1, 4096]);
    expect(at(util.bytes_to_ptr(new Uint8Array(4)))).toEqual([2, 0, 0]);
    expect(at(99)).toEqual([2, 0, 0]);
    expect(ok(rt.check_mem_type([small, large], 1))).toBe(1);
    expect(ok(rt.check_mem_type([small, host], 1))).toBe(0);
    expect(ok(rt.mem_get_address_range(small + 77))).toEqual([small, 2 ** 20]);
    const elsewhere = ok(rt.malloc_with_cfg(64, 0, { numAttrs: 1, attrs: [{ attr: 2, value: 0 }] }));
    expect(at(elsewhere)).toEqual([1, 0, 4096]);
    expect(at(ok(rt.malloc_for_task_scheduler(64, 0)))).toEqual([1, 1, 4096]);
    expect(at(ok(rt.malloc_host_with_cfg(64, {})))).toEqual([0, 1, 4096]);
    expect(codeOf(rt.malloc_with_cfg(64, 0, { attrs: [{ attr: 9, value: 0 }] }))).toBe(107000);
  });

  test("usage by component; a short array gives 107039", () => {
    covers("rt.get_mem_usage_info", "rt.malloc_cached", "rt.mem_flush", "rt.mem_invalidate");
    start();
    ok(rt.set_device(0));
    const address = ok(rt.malloc_cached(1000, 0));
    ok(rt.mem_flush(address, 1000));
    ok(rt.mem_invalidate(address, 1000));
    expect(rt.mem_flush(address, 1001)).toBe(107000);
    const [app] = ok(rt.get_mem_usage_info(0, 8));
    expect(app).toEqual({ name: "APP", curMemSize: 1056, memPeakSize: 1056 });
    ok(rt.free(address));
    expect(ok(rt.get_mem_usage_info(0, 8))[0]).toEqual({ name: "APP", curMemSize: 0, memPeakSize: 1056 });
    expect(codeOf(rt.get_mem_usage_info(0, 1))).toBe(107039);
  });
});

describe("copies", () => {
  test("synchronous ones go by the addresses, whatever kind is said", () => {
    covers("rt.memcpy", "rt.memset", "util.bytes_to_ptr", "util.ptr_to_bytes", "util.ptr_to_view", "util.numpy_to_ptr");
    start();
    ok(rt.set_device(0));
    const [a, b] = [ok(rt.malloc(64, 0)), ok(rt.malloc(64, 0))];
    const host = ok(rt.malloc_host(64));
    const source = pattern(64);
    ok(rt.memcpy(a, 64, util.bytes_to_ptr(source), 64, 1));
    ok(rt.memcpy(b, 64, a, 64, 0)); // says host to host
    ok(rt.memcpy(host, 64, b, 64, 4));
    expect(util.ptr_to_bytes(host, 64)).toEqual(Buffer.from(source));
    expect(util.ptr_to_view(host, 4)[1]).toBe(7);
    const target = new Float32Array(16);
    ok(rt.memcpy(util.numpy_to_ptr(target), 64, host, 64, 0));
    expect(new Uint8Array(target.buffer)).toEqual(source);
    ok(rt.memset(a, 64, 0x1ff, 10));
    expect(read(a, 12)).toEqual([...Array(10).fill(255), ...source.subarray(10, 12)]);
    expect(rt.memcpy(a, 63, b, 64, 3)).toBe(107000);
    expect(rt.memcpy(a, 65, b, 65, 3)).toBe(107000);
    expect(rt.memcpy(a, 64, b, 64, 5)).toBe(107000);
    expect(rt.memcpy(0, 64, b, 64, 3)).toBe(107000);
    expect(rt.memset(a, 4, 1, 5)).toBe(107000);
  });

  test("asynchronous ones run in stream order between pinned and device memory", () => {
    covers("rt.memcpy_async", "rt.memset_async", "rt.memcpy_async_with_condition");
    start();
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const gate = ok(rt.malloc(8, 0));
    ok(rt.memset(gate, 8, 0, 8));
    const [a, b] = [ok(rt.malloc(64, 0)), ok(rt.malloc(64, 0))];
    const [from, to] = [ok(rt.malloc_host(64)), ok(rt.malloc_host(64))];
    const source = util.ptr_to_view(from, 64);
    source.fill(1);
    ok(rt.value_wait(gate, 1, 0, stream));
    ok(rt.memcpy_async(a, 64, from, 64, 1, stream));
    ok(rt.memcpy_async(b, 64, a, 64, 3, stream));
    ok(rt.memset_async(b, 64, 9, 3, stream));
    ok(rt.memcpy_async_with_condition(to, 64, b, 64, 4, stream));
    source.set(pattern(64)); // pinned memory is read when the task runs
    expect(ok(rt.stream_query(stream))).toBe(1);
    ok(rt.memset(gate, 8, 1, 1));
    ok(rt.synchronize_stream(stream));
    expect([...util.ptr_to_view(to, 64)]).toEqual([9, 9, 9, ...pattern(64).subarray(3)]);
  });

  test("pageable memory: waits for the stream, then copies; its failures come out there", () => {
    start();
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const address = ok(rt.malloc(16, 0));
    ok(rt.memset_async(address, 16, 4, 16, stream));
    const bytes = new Uint8Array(16);
    ok(rt.memcpy_async(bytes, 16, address, 16, 2, stream));
    expect([...bytes]).toEqual(Array(16).fill(4)); // without synchronize
  });

  test("kinds must fit; host to host is refused; the same address is a no-op", () => {
    start();
    ok(rt.set_device(0));
    const address = ok(rt.malloc(16, 0));
    const host = ok(rt.malloc_host(16));
    expect(rt.memcpy_async(address, 16, host, 16, 3, 0)).toBe(107000);
    expect(rt.memcpy_async(host, 16, host, 16, 0, 0)).toBe(207000);
    expect(rt.memcpy_async(new Uint8Array(4), 4, host, 4, 4, 0)).toBe(207000);
    const before = ok(rt.get_thread_last_task_id());
    expect(rt.memcpy_async(address, 16, address, 16, 3, 0)).toBe(0);
    expect(ok(rt.get_thread_last_task_id())).toBe(before);
    expect(rt.memcpy_async(address, 8, host, 16, 1, 0)).toBe(107000);
  });

  test("2-D copies keep what lies between the rows", () => {
    covers("rt.memcpy2d", "rt.memcpy2d_async");
    start();
    ok(rt.set_device(0));
    const [a, b] = [ok(rt.malloc(64, 0)), ok(rt.malloc(64, 0))];
    ok(rt.memset(a, 64, 0, 64));
    ok(rt.memset(b, 64, 0, 64));
    const source = pattern(12, 1);
    ok(rt.memcpy2d(a, 16, source, 4, 3, 3, 1));
    const expected = Array(64).fill(0);
    for (let row = 0; row < 3; row++) {
      for (let i = 0; i < 3; i++) {
        expected[row * 16 + i] = source[row * 4 + i];
      }
    }
    expect(read(a, 64)).toEqual(expected);
    ok(rt.memcpy2d_async(b, 16, a, 16, 3, 3, 3, 0));
    ok(rt.synchronize_stream(0));
    expect(read(b, 64)).toEqual(expected);
    expect(rt.memcpy2d(a, 2, source, 4, 3, 3, 1)).toBe(107000);
    expect(rt.memcpy2d(a, 16, b, 16, 3, 3, 3)).toBe(107000);
    expect(rt.memcpy2d(a, 6e6, source, 6e6, 5_000_001, 1, 1)).toBe(107000);
    expect(rt.memcpy2d(a, 16, source, 4, 3, 5_242_881, 1)).toBe(107000);
  });

  test("batches: one task, adjacent blocks merged, and the bad entry named", () => {
    covers("rt.memcpy_batch", "rt.memcpy_batch_async");
    start();
    ok(rt.set_device(0));
    const target = ok(rt.malloc(1024, 0));
    const source = ok(rt.malloc_host(1024));
    util.ptr_to_view(source, 1024).set(pattern(1024));
    const attrs = [{ dstLoc: { id: 0, type: 1 }, srcLoc: { id: 0, type: 0 } }];
    const blocks = [0, 64, 128, 512, 576];
    const lists = [blocks.map((at) => target + at), blocks.map(() => 64), blocks.map((at) => source + at), blocks.map(() => 64)] as const;
    const device = deviceIfOpen(0)!;
    const before = ok(rt.get_thread_last_task_id());
    expect(rt.memcpy_batch_async(...lists, attrs, [0], 0)).toEqual([5, 0]);
    expect(ok(rt.get_thread_last_task_id())).toBe(before === 0 ? ok(rt.get_thread_last_task_id()) : before + 1);
    expect(device.get(Shared.MERGED_COPIES)).toBe(3); // five blocks, two runs
    ok(rt.synchronize_stream(0));
    expect(read(target + 512, 128)).toEqual([...pattern(1024).subarray(512, 640)]);
    expect(read(target, 192)).toEqual([...pattern(1024).subarray(0, 192)]);
    const sizes = [64, 64, 65, 64, 64];
    expect(rt.memcpy_batch(lists[0], lists[1], lists[2], sizes, attrs, [0])).toEqual([2, 107000]);
    expect(rt.memcpy_batch([target], [64], [target + 64], [64], attrs, [0])).toEqual([0, 107000]);
    expect(codeOf(rt.memcpy_batch(lists[0], lists[1], lists[2], lists[3], attrs, [1]))).toBe(107000);
    expect(codeOf(rt.memcpy_batch([target], [64], [source], [64], [{ dstLoc: { type: 0 }, srcLoc: { type: 1 } }], [0]))).toBe(107000);
  });

  test("32-bit fills", () => {
    covers("rt.memset_d32", "rt.memset_d32_async");
    start();
    ok(rt.set_device(0));
    const address = ok(rt.malloc(16, 0));
    ok(rt.memset_d32(address, 16, 0x01020304, 2));
    ok(rt.memset_d32_async(address + 8, 8, -1, 2, 0));
    ok(rt.synchronize_stream(0));
    expect(read(address, 16)).toEqual([4, 3, 2, 1, 4, 3, 2, 1, ...Array(8).fill(255)]);
    expect(rt.memset_d32(address + 1, 8, 0, 1)).toBe(107000);
    expect(rt.memset_d32(address, 7, 0, 2)).toBe(107000);
  });

  test("the address of a buffer stays the same, and one past its end is found out", () => {
    start();
    ok(rt.set_device(0));
    const address = ok(rt.malloc(64, 0));
    const buffer = new Uint8Array(32);
    const pointer = util.bytes_to_ptr(buffer);
    expect(util.bytes_to_ptr(buffer)).toBe(pointer);
    expect(util.bytes_to_ptr(buffer.subarray(5))).toBe(pointer + 5);
    ok(rt.memset(address, 64, 6, 64));
    ok(rt.memcpy(pointer + 5, 3, address, 3, 2));
    expect([...buffer.subarray(4, 9)]).toEqual([0, 6, 6, 6, 0]);
    expect(rt.memcpy(pointer + 30, 3, address, 3, 2)).toBe(107000);
    expect(acl.get_recent_err_msg()).toContain("1 bytes past its buffer of 32 bytes");
  });
});
