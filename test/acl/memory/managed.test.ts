/** Managed memory, bad memory and its repair, allocators of the user. */
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "../harness";
import { helperKernels } from "../kernels/build";

const { rt, util } = acl;
const UNIT = 2 ** 21;
const [HOST, DEVICE] = [
  { id: 0, type: 0 },
  { id: 0, type: 1 },
];
const NOWHERE = { id: -1, type: -1 };
afterEach(finish);

describe("managed memory", () => {
  beforeEach(() => {
    start({ memory: 64 * UNIT });
    ok(rt.set_device(0));
  });

  test("host and device use the same bytes under one address", () => {
    covers("rt.mem_alloc_managed");
    const [free] = ok(rt.get_mem_info(1));
    const place = ok(rt.mem_alloc_managed(2 * UNIT, 1));
    expect(ok(rt.pointer_get_attributes(place)).location.type).toBe(3);
    const host = util.ptr_to_view(place, 2 * UNIT);
    host.fill(7);
    const stream = ok(rt.create_stream());
    const target = ok(rt.malloc(64, 0));
    ok(rt.memcpy_async(target, 64, place + UNIT, 64, 3, stream));
    ok(rt.memset_async(place, 64, 9, 64, stream));
    ok(rt.synchronize_stream(stream));
    const bytes = new Uint8Array(64);
    ok(rt.memcpy(bytes, 64, target, 64, 2));
    expect([bytes[0], bytes[63], host[0], host[63], host[64]]).toEqual([7, 7, 9, 9, 7]);
    ok(rt.free(target));
    ok(rt.free(place));
    expect(ok(rt.get_mem_info(1))[0]).toBe(free);
    expect(codeOf(rt.mem_managed_get_attr(0, place, 64))).toBe(107000);
    expect(codeOf(rt.mem_alloc_managed(UNIT + 1, 1))).toBe(107000);
    expect(codeOf(rt.mem_alloc_managed(UNIT, 2))).toBe(107000);
  });

  test("advice and prefetches are kept and told", () => {
    covers("rt.mem_managed_advise", "rt.mem_managed_get_attr", "rt.mem_managed_get_attrs");
    covers("rt.mem_managed_prefetch_async", "rt.mem_managed_prefetch_batch_async");
    const [place, other] = [ok(rt.mem_alloc_managed(UNIT, 1)), ok(rt.mem_alloc_managed(UNIT, 1))];
    expect(ok(rt.mem_managed_get_attrs([0, 1, 2, 3], place, UNIT))).toEqual([0, NOWHERE, [], NOWHERE]);
    ok(rt.mem_managed_advise(place, UNIT, 0, HOST));
    ok(rt.mem_managed_advise(place, UNIT, 2, DEVICE));
    ok(rt.mem_managed_advise(place, UNIT, 4, { id: 1, type: 1 }));
    ok(rt.mem_managed_advise(place, UNIT, 4, HOST));
    expect(ok(rt.mem_managed_get_attrs([0, 1, 2], place, UNIT))).toEqual([1, DEVICE, [HOST, { id: 1, type: 1 }]]);
    for (const advice of [1, 3]) ok(rt.mem_managed_advise(place, UNIT, advice, DEVICE));
    ok(rt.mem_managed_advise(place, UNIT, 5, HOST));
    expect(ok(rt.mem_managed_get_attrs([0, 1, 2], place, UNIT))).toEqual([0, NOWHERE, [{ id: 1, type: 1 }]]);
    const stream = ok(rt.create_stream());
    ok(rt.mem_managed_prefetch_async(place, UNIT, DEVICE, 0, stream));
    const task = ok(rt.get_thread_last_task_id());
    expect(ok(rt.mem_managed_get_attr(3, place, UNIT))).toEqual(DEVICE);
    ok(rt.mem_managed_prefetch_batch_async([place, other], [UNIT, 4096], [HOST, DEVICE], [0, 1], 0, stream));
    expect(ok(rt.get_thread_last_task_id())).toBe(task + 2);
    ok(rt.synchronize_stream(stream));
    expect([ok(rt.mem_managed_get_attr(3, place, 1)), ok(rt.mem_managed_get_attr(3, other, 1))]).toEqual([HOST, DEVICE]);
    expect(rt.mem_managed_advise(place, UNIT, 9, HOST)).toBe(107000);
    expect(rt.mem_managed_advise(ok(rt.malloc(64, 0)), 64, 0, HOST)).toBe(107000);
    expect(rt.mem_managed_prefetch_async(place, 2 * UNIT, HOST, 0, stream)).toBe(107000);
    expect(codeOf(rt.mem_managed_get_attr(7, place, UNIT))).toBe(107000);
  });
});

test("an uncorrectable error fails what touches it, is told, classified and repaired", () => {
  covers("rt.inject_mem_uce", "rt.get_mem_uce_info", "rt.mem_uce_repair", "rt.get_error_verbose", "rt.repair_error");
  start();
  ok(rt.set_device(0));
  const place = ok(rt.malloc(4096, 0));
  ok(rt.memset(place, 4096, 5, 4096));
  expect(ok(rt.get_mem_uce_info(0, 4))).toEqual([]);
  expect(rt.repair_error(0)).toBe(207000); // nothing to repair
  ok(rt.inject_mem_uce(place + 1024, 64));
  const bytes = new Uint8Array(4096);
  ok(rt.memcpy(bytes, 1024, place, 1024, 2)); // beside it
  expect(rt.memcpy(bytes, 4096, place, 4096, 2)).toBe(507053);
  expect(ok(rt.get_error_verbose(0))).toMatchObject({ errorType: 1, code: 507053, tryRepair: 1 });
  expect(codeOf(rt.get_mem_uce_info(0, 0))).toBe(107039);
  const infos = ok(rt.get_mem_uce_info(0, 4));
  expect(infos).toEqual([{ addr: place + 1024, len: 64 }]);
  expect(rt.mem_uce_repair(0, [{ addr: place, len: 64 }])).toBe(107000);
  ok(rt.mem_uce_repair(0, infos));
  ok(rt.memcpy(bytes, 4096, place, 4096, 2));
  expect([bytes[1023], bytes[1024], bytes[1087], bytes[1088]]).toEqual([5, 0, 0, 5]); // what was there is lost
  ok(rt.inject_mem_uce(place, 64));
  expect(rt.memset(place, 64, 0, 64)).toBe(507053);
  ok(rt.repair_error(0));
  ok(rt.memset(place, 64, 0, 64));
  ok(rt.inject_mem_uce(place, 64));
  ok(rt.free(place)); // and with it the bad range
  expect(ok(rt.get_mem_uce_info(0, 4))).toEqual([]);
});

describe("allocators", () => {
  interface Block {
    readonly address: number;
    readonly size: number;
  }

  test("serve the data of large launches of their stream, and get it back when the launch has run", () => {
    covers("rt.allocator_create_desc", "rt.allocator_destroy_desc", "rt.allocator_set_obj_to_desc", "rt.allocator_set_alloc_func_to_desc");
    covers("rt.allocator_set_free_func_to_desc", "rt.allocator_set_alloc_advise_func_to_desc", "rt.allocator_set_get_addr_from_block_func_to_desc");
    covers("rt.allocator_register", "rt.allocator_unregister", "rt.allocator_get_by_stream");
    start({ driver: "threads" });
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const calls: unknown[] = [];
    const owner = { name: "mine" };
    const make = (size: number): Block => ({ address: ok(rt.malloc(size, 0)), size });
    const alloc = (object: unknown, size: number): Block => {
      calls.push(["alloc", object === owner, size]);
      return make(size);
    };
    const advise = (object: unknown, size: number, address: number): Block => {
      calls.push(["advise", object === owner, size, address]);
      return make(size);
    };
    const free = (object: unknown, block: Block): void => {
      calls.push(["free", object === owner, block.size]);
      ok(rt.free(block.address));
    };
    const addressOf = (block: Block): number => block.address;
    const desc = rt.allocator_create_desc();
    expect(rt.allocator_register(stream, desc)).toBe(107000); // it has no functions yet
    ok(rt.allocator_set_obj_to_desc(desc, owner));
    ok(rt.allocator_set_alloc_func_to_desc(desc, alloc));
    ok(rt.allocator_set_free_func_to_desc(desc, free));
    ok(rt.allocator_set_get_addr_from_block_func_to_desc(desc, addressOf));
    ok(rt.allocator_register(stream, desc));
    expect(rt.allocator_get_by_stream(stream)).toEqual([desc, owner, alloc, free, undefined, addressOf, 0]);
    expect(rt.allocator_destroy_desc(desc)).toBe(107000); // in use

    const sum = ok(rt.binary_get_function(ok(rt.binary_load_from_file(helperKernels())), "SumBytes"));
    const out = ok(rt.malloc(4, 0));
    const launch = (on: number, count: number): number => {
      const args = new Uint8Array(24 + count).fill(3, 24);
      new DataView(args.buffer).setUint32(8, count, true);
      new DataView(args.buffer).setBigUint64(16, BigInt(out), true);
      ok(rt.launch_kernel_with_host_args(sum, 1, on, [], args, args.length, [{ addrOffset: 0, dataOffset: 24 }]));
      ok(rt.synchronize_stream(on));
      const found = new Uint32Array(1);
      ok(rt.memcpy(found, 4, out, 4, 2));
      return found[0]!;
    };
    expect(launch(stream, 10_000)).toBe(30_000);
    expect(calls).toEqual([
      ["alloc", true, 10_000],
      ["free", true, 10_000],
    ]);
    expect(launch(stream, 100)).toBe(300); // small data travels in the ring
    expect(launch(ok(rt.create_stream()), 10_000)).toBe(30_000); // another stream
    expect(calls).toHaveLength(2);
    ok(rt.allocator_set_alloc_advise_func_to_desc(desc, advise));
    expect(launch(stream, 5000)).toBe(15_000);
    expect(calls[2]).toEqual(["advise", true, 5000, expect.any(Number)]);
    ok(rt.allocator_set_alloc_advise_func_to_desc(desc, () => null));
    const args = new Uint8Array(5024);
    expect(rt.launch_kernel_with_host_args(sum, 1, stream, [], args, args.length, [{ addrOffset: 0, dataOffset: 24 }])).toBe(207001);
    ok(rt.allocator_unregister(stream));
    expect(rt.allocator_unregister(stream)).toBe(107000);
    expect(codeOf(rt.allocator_get_by_stream(stream))).toBe(107000);
    expect(launch(stream, 10_000)).toBe(30_000);
    expect(calls).toHaveLength(4);
    ok(rt.allocator_destroy_desc(desc));
    expect(rt.allocator_destroy_desc(desc)).toBe(107017);
  });
});
