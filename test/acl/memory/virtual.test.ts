/** Virtual memory: quota, mappings, and bytes that stay with the physical memory wherever it is mapped. */
import { acl } from "npurt/acl";
import { deviceIfOpen } from "../../../dist/lib/acl/devices";
import { codeOf, covers, finish, ok, start } from "../harness";

const { rt } = acl;
const MIB = 2 ** 20;
const UNIT = 2 * MIB;
const PROP = { handleType: 0, allocationType: 0, memAttr: 0, location: { id: 0, type: 1 }, reserve: 0 };

beforeEach(() => {
  start({ memory: 64 * MIB });
  ok(rt.set_device(0));
});
afterEach(finish);

const reserve = (size: number): number => ok(rt.reserve_mem_address(size, 0, 0, 1));
const physical = (size: number): number => ok(rt.malloc_physical(size, PROP, 0));
const map = (address: number, size: number, handle: number): void => void ok(rt.map_mem(address, size, 0, handle, 0));
const fill = (address: number, value: number, size = UNIT): void => void ok(rt.memset(address, size, value, size));
const free = (): number => (ok(rt.get_mem_info(0)) as unknown as [number, number])[0];
const live = (): number => deviceIfOpen(0)!.machine.core.poolCount();

function bytes(address: number, size = UNIT): Uint8Array {
  const read = new Uint8Array(size);
  ok(rt.memcpy(read, size, address, size, 2));
  return read;
}

test("reserve costs no quota, physical memory does, mapped or not; all of it comes back", () => {
  covers("rt.reserve_mem_address", "rt.release_mem_address", "rt.malloc_physical", "rt.free_physical", "rt.map_mem", "rt.unmap_mem");
  covers("rt.mem_get_allocation_granularity", "rt.reserve_mem_address_no_uc_memory");
  expect(ok(rt.mem_get_allocation_granularity(PROP, 0))).toBe(UNIT);
  const before = free();
  const range = reserve(8 * MIB);
  expect(range % UNIT).toBe(0);
  expect(free()).toBe(before);
  const handle = physical(4 * MIB);
  expect(free()).toBe(before - 4 * MIB);
  map(range + UNIT, 4 * MIB, handle);
  fill(range + UNIT, 5, 4 * MIB);
  expect(bytes(range + UNIT, 4 * MIB).every((value) => value === 5)).toBe(true);
  expect(rt.release_mem_address(range)).toBe(107000);
  ok(rt.free_physical(handle)); // goes when it is unmapped
  expect(free()).toBe(before - 4 * MIB);
  expect(bytes(range + UNIT, 16)[0]).toBe(5);
  ok(rt.unmap_mem(range + UNIT));
  expect(free()).toBe(before);
  ok(rt.release_mem_address(range));
  const other = ok(rt.reserve_mem_address_no_uc_memory(UNIT, 0, 0, 0));
  ok(rt.release_mem_address(other));
  const count = live();
  for (let round = 0; round < 50; round++) {
    const again = reserve(32 * MIB); // fits each time: nothing is left behind
    ok(rt.release_mem_address(again));
  }
  expect(live()).toBe(count);
});

test("bytes move with the physical memory: unmapped, covered by others, mapped elsewhere", () => {
  const range = reserve(3 * UNIT);
  const [a, b] = [physical(UNIT), physical(UNIT)];
  map(range, UNIT, a);
  fill(range, 1);
  ok(rt.unmap_mem(range));
  map(range, UNIT, b); // where the bytes of a lay
  fill(range, 2);
  map(range + UNIT, UNIT, a);
  expect(bytes(range + UNIT).every((value) => value === 1)).toBe(true);
  ok(rt.unmap_mem(range));
  ok(rt.unmap_mem(range + UNIT));
  map(range, UNIT, a); // swapped
  map(range + UNIT, UNIT, b);
  expect([bytes(range)[UNIT - 1], bytes(range + UNIT)[0]]).toEqual([1, 2]);
  ok(rt.unmap_mem(range));
  ok(rt.unmap_mem(range + UNIT));
  ok(rt.release_mem_address(range)); // the bytes outlive the range
  const next = reserve(UNIT);
  map(next, UNIT, b);
  expect(bytes(next).every((value) => value === 2)).toBe(true);
});

test("a growing buffer: pieces mapped one behind the other are one range for copies and kernels", () => {
  const range = reserve(4 * UNIT);
  map(range, UNIT, physical(UNIT));
  expect(rt.memset(range, 2 * UNIT, 1, 2 * UNIT)).toBe(107000);
  expect(acl.get_recent_err_msg()).toMatch(/is reserved, and nothing is mapped there/);
  map(range + UNIT, 2 * UNIT, physical(2 * UNIT));
  const stream = ok(rt.create_stream());
  ok(rt.memset_async(range, 3 * UNIT, 9, 3 * UNIT, stream));
  ok(rt.synchronize_stream(stream));
  expect(bytes(range, 3 * UNIT).every((value) => value === 9)).toBe(true);
});

test("access none, read, and read and write hold for calls", () => {
  covers("rt.mem_map_no_access", "rt.mem_set_access", "rt.mem_get_access");
  const range = reserve(UNIT);
  ok(rt.mem_map_no_access(range, UNIT, 0, physical(UNIT), 0));
  expect(ok(rt.mem_get_access(range + 100))).toBe(0);
  expect(rt.memcpy(new Uint8Array(4), 4, range, 4, 2)).toBe(107000);
  ok(rt.mem_set_access(range, UNIT, [{ flags: 3, location: { id: 0, type: 1 } }]));
  fill(range, 4);
  ok(rt.mem_set_access(range, UNIT, [{ flags: 1 }]));
  expect(bytes(range, 4)[0]).toBe(4);
  expect(rt.memcpy(range, 4, new Uint8Array(4), 4, 1)).toBe(107000);
  expect(rt.memset(range, 4, 0, 4)).toBe(107000);
  expect(rt.mem_set_access(range, UNIT, [{ flags: 2 }])).toBe(107000);
});

test("a handle can be had again from its mapping, and says what it was made with", () => {
  covers("rt.mem_retain_allocation_handle", "rt.mem_get_allocation_properties_from_handle");
  const range = reserve(UNIT);
  const handle = ok(rt.malloc_physical(UNIT, { ...PROP, memAttr: 3 }, 0));
  map(range, UNIT, handle);
  const again = ok(rt.mem_retain_allocation_handle(range));
  ok(rt.free_physical(handle));
  ok(rt.unmap_mem(range));
  expect(ok(rt.mem_get_allocation_properties_from_handle(again))).toMatchObject({ memAttr: 3, location: { id: 0, type: 1 } });
  ok(rt.free_physical(again));
  expect(rt.free_physical(again)).toBe(107017);
});

test("wrong sizes, places and second mappings", () => {
  const range = reserve(2 * UNIT);
  const handle = physical(UNIT);
  expect(codeOf(rt.reserve_mem_address(UNIT + 1, 0, 0, 0))).toBe(107000);
  expect(codeOf(rt.malloc_physical(MIB, PROP, 0))).toBe(107000);
  expect(codeOf(rt.malloc_physical(UNIT, { ...PROP, location: { id: 0, type: 0 } }, 0))).toBe(107000);
  expect(codeOf(rt.malloc_physical(128 * MIB, PROP, 0))).toBe(207001);
  expect(rt.map_mem(range, 2 * UNIT, 0, handle, 0)).toBe(107000); // not its size
  expect(rt.map_mem(range, UNIT, UNIT, handle, 0)).toBe(107000);
  expect(rt.map_mem(range + 4096, UNIT, 0, handle, 0)).toBe(107000);
  expect(rt.map_mem(ok(rt.malloc(UNIT, 0)), UNIT, 0, handle, 0)).toBe(107000);
  map(range, UNIT, handle);
  expect(rt.map_mem(range, UNIT, 0, physical(UNIT), 0)).toBe(107000);
  expect(rt.map_mem(range + UNIT, UNIT, 0, handle, 0)).toBe(207000);
  expect(acl.get_recent_err_msg()).toContain("no MMU");
  expect(rt.unmap_mem(range + UNIT)).toBe(107000);
  expect(rt.free(range)).toBe(107000);
  expect(rt.map_mem(range, UNIT, 0, 0, 0)).toBe(107000);
});

test("a reset takes ranges and physical memory along", () => {
  const range = reserve(UNIT);
  const handle = physical(UNIT);
  map(range, UNIT, handle);
  ok(rt.reset_device(0));
  ok(rt.set_device(0));
  expect(rt.free_physical(handle)).toBe(107017);
  expect(codeOf(rt.memset(range, 4, 0, 4))).toBe(107000);
  expect(free()).toBe(deviceIfOpen(0)!.memoryBytes);
});
