/** Memory that threads give each other by key, and host memory that the device sees without a copy. */
import path from "node:path";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "../harness";

const { rt, util } = acl;
const UNIT = 2 ** 21;
const PROP = { location: { id: 0, type: 1 } };
const importer = path.join(__dirname, "importer.cjs");
afterEach(finish);

function inThread(name: string, ...args: readonly (string | number)[]): void {
  const thread = ok(util.start_thread(`${importer}#${name}`, [...args]));
  ok(util.stop_thread(thread));
}

function begin(driver: "threads" | "inline"): void {
  start({ driver, cores: 1, memory: 64 * 2 ** 20 });
  ok(rt.set_device(0));
}

test("a key opens device memory in another thread, for those on its white list, until it is closed", () => {
  covers("rt.ipc_mem_get_export_key", "rt.ipc_mem_set_import_pid", "rt.ipc_mem_import_by_key", "rt.ipc_mem_close");
  begin("threads");
  const address = ok(rt.malloc(4096, 0));
  ok(rt.memset(address, 4096, 41, 4096));
  const key = ok(rt.ipc_mem_get_export_key(address, 4096, 65, 0));
  expect(key).toHaveLength(64);
  inThread("expectCode", key, 507022);
  ok(rt.ipc_mem_set_import_pid(key, [ok(rt.device_get_bare_tgid())]));
  inThread("increment", key, 4096);
  const bytes = new Uint8Array(4096);
  ok(rt.memcpy(bytes, 4096, address, 4096, 2));
  expect(bytes.every((value) => value === 42)).toBe(true);
  ok(rt.ipc_mem_close(key));
  inThread("expectCode", key, 507899);
  const open = ok(rt.ipc_mem_get_export_key(address, 4096, 65, 1)); // flag 1: for everybody
  inThread("increment", open, 4096);
  ok(rt.free(address));
  inThread("expectCode", open, 507899);
});

test("physical memory goes to another thread by a shareable handle, which maps it a second time", () => {
  covers("rt.mem_export_to_shareable_handle", "rt.mem_set_pid_to_shareable_handle", "rt.mem_import_from_shareable_handle");
  begin("threads");
  const range = ok(rt.reserve_mem_address(UNIT, 0, 0, 0));
  const handle = ok(rt.malloc_physical(UNIT, PROP, 0));
  ok(rt.map_mem(range, UNIT, 0, handle, 0));
  ok(rt.memset(range, UNIT, 6, UNIT));
  const shareable = ok(rt.mem_export_to_shareable_handle(handle, 0, 0));
  expect(codeOf(rt.mem_import_from_shareable_handle(shareable, 0))).toBe(507022);
  ok(rt.mem_set_pid_to_shareable_handle(shareable, [process.pid]));
  inThread("mapAndIncrement", shareable, UNIT, 6);
  const bytes = new Uint8Array(UNIT);
  ok(rt.memcpy(bytes, UNIT, range, UNIT, 2));
  expect(bytes.every((value) => value === 7)).toBe(true);
});

test("the second mapping becomes the mapping when the first one goes", () => {
  begin("inline");
  const [first, second] = [ok(rt.reserve_mem_address(UNIT, 0, 0, 0)), ok(rt.reserve_mem_address(UNIT, 0, 0, 0))];
  const handle = ok(rt.malloc_physical(UNIT, PROP, 0));
  ok(rt.map_mem(first, UNIT, 0, handle, 0));
  ok(rt.memset(first, UNIT, 3, UNIT));
  const imported = ok(rt.mem_import_from_shareable_handle(ok(rt.mem_export_to_shareable_handle(handle, 0, 1)), 0));
  ok(rt.map_mem(second, UNIT, 0, imported, 0));
  ok(rt.unmap_mem(first));
  ok(rt.free_physical(handle));
  const bytes = new Uint8Array(UNIT);
  ok(rt.memcpy(bytes, UNIT, second, UNIT, 2));
  expect(bytes.every((value) => value === 3)).toBe(true);
  expect(rt.memset(first, 4, 0, 4)).toBe(107000);
});

test("keys of other processes are refused with the reason; bad keys and addresses with 107000", () => {
  begin("inline");
  const address = ok(rt.malloc(4096, 0));
  const key = ok(rt.ipc_mem_get_export_key(address, 4096, 65, 1));
  const foreign = `npurt${(process.pid + 1).toString(16).padStart(11, "0")}${key.slice(16)}`;
  expect(codeOf(rt.ipc_mem_import_by_key(foreign, 0))).toBe(207000);
  expect(acl.get_recent_err_msg()).toContain("one process");
  const shareable = ok(rt.mem_export_to_shareable_handle(ok(rt.malloc_physical(UNIT, PROP, 0)), 0, 1));
  expect(codeOf(rt.mem_import_from_shareable_handle(shareable + 2 ** 31, 0))).toBe(207000);
  expect(codeOf(rt.mem_import_from_shareable_handle(shareable + 1, 0))).toBe(507899);
  expect(codeOf(rt.ipc_mem_import_by_key("nonsense", 0))).toBe(107000);
  expect(codeOf(rt.ipc_mem_get_export_key(address, 4096, 64, 0))).toBe(107000);
  expect(codeOf(rt.ipc_mem_get_export_key(address + 64, 64, 65, 0))).toBe(107000);
  expect(codeOf(rt.ipc_mem_get_export_key(address, 8192, 65, 0))).toBe(107000);
  expect(rt.ipc_mem_set_import_pid(key, [])).toBe(107000);
});

test("registered host memory is the device's memory: what one writes the other reads, without a copy", () => {
  covers("rt.host_register", "rt.host_register_v2", "rt.host_unregister", "rt.host_get_device_pointer");
  begin("inline");
  const host = ok(rt.malloc_host(8192));
  const device = ok(rt.host_register(host, 8192, 0));
  expect(device).not.toBe(host);
  ok(rt.memset(host, 8192, 11, 8192));
  const stream = ok(rt.create_stream());
  const target = ok(rt.malloc(8192, 0));
  ok(rt.memcpy_async(target, 8192, device, 8192, 3, stream)); // device to device: the engine sees the host's bytes
  ok(rt.memset_async(device, 4096, 12, 4096, stream));
  ok(rt.synchronize_stream(stream));
  const bytes = new Uint8Array(8192);
  ok(rt.memcpy(bytes, 8192, target, 8192, 2));
  expect(bytes.every((value) => value === 11)).toBe(true);
  ok(rt.memcpy(bytes, 8192, host, 8192, 0));
  expect([bytes[0], bytes[4095], bytes[4096]]).toEqual([12, 12, 11]);
  expect(ok(rt.host_get_device_pointer(host, 0))).toBe(device);
  expect(codeOf(rt.host_register(host + 4096, 4096, 0))).toBe(507910);
  ok(rt.host_unregister(host));
  expect(rt.host_unregister(host)).toBe(507911);
  expect(codeOf(rt.host_get_device_pointer(host, 0))).toBe(507911);
  ok(rt.host_register_v2(host, 64, 2));
  expect(rt.host_register_v2(host + 64, 64, 4)).toBe(207000);
  expect(codeOf(rt.host_register(host + 65, 64, 0))).toBe(107008);
  ok(rt.free_host(host)); // and its registration
  ok(rt.host_register_v2(ok(rt.malloc_host(8192)), 8192, 0x10000002));
  expect(codeOf(rt.host_register(new Uint8Array(4096), 4096, 0))).toBe(207000);
  expect(codeOf(rt.host_register(target, 4096, 0))).toBe(107000);
});

test("an event for sharing orders streams of two threads and contexts; only its maker ends it", () => {
  covers("rt.ipc_get_event_handle", "rt.ipc_open_event_handle");
  begin("threads");
  const event = ok(rt.create_event_with_flag(0x40));
  const key = ok(rt.ipc_get_event_handle(event));
  expect(key).toHaveLength(64);
  const [gate, word] = [ok(rt.malloc(8, 0)), ok(rt.malloc(8, 0))];
  for (const place of [gate, word]) ok(rt.memset(place, 8, 0, 8));
  const stream = ok(rt.create_stream());
  ok(rt.value_wait(gate, 1, 1, stream));
  ok(rt.value_write(word, 1, 0, stream));
  ok(rt.record_event(event, stream));
  const thread = ok(util.start_thread(`${importer}#followEvent`, [key, word]));
  const value = new BigUint64Array(1);
  ok(rt.memcpy(gate, 8, BigUint64Array.of(1n), 8, 1));
  ok(util.stop_thread(thread));
  ok(rt.memcpy(value, 8, word, 8, 2));
  expect(value[0]).toBe(2n); // 1 came first: the other thread's write is behind the event
  ok(rt.synchronize_event(event)); // its record there counts here
  expect(ok(rt.query_event_status(event))).toBe(1);
  ok(rt.destroy_event(event));
  inThread("expectEventCode", key, 507022);
  const plain = ok(rt.create_event());
  expect(codeOf(rt.ipc_get_event_handle(plain))).toBe(107000);
  expect(codeOf(rt.ipc_open_event_handle("nonsense"))).toBe(107000);
  const foreign = key.replace(process.pid.toString(16).padStart(8, "0"), (process.pid + 1).toString(16).padStart(8, "0"));
  expect(codeOf(rt.ipc_open_event_handle(foreign))).toBe(207000);
  expect(acl.get_recent_err_msg()).toContain("one process");
});

test("a notify goes to another thread by its key, for those on its white list", () => {
  covers("rt.notify_get_export_key", "rt.notify_set_import_pid", "rt.notify_import_by_key");
  begin("threads");
  const notify = ok(rt.create_notify(0));
  const key = ok(rt.notify_get_export_key(notify, 65, 0));
  const [stream, word] = [ok(rt.create_stream()), ok(rt.malloc(8, 0))];
  ok(rt.memset(word, 8, 0, 8));
  ok(rt.wait_and_reset_notify(notify, stream, 0));
  ok(rt.value_write(word, 5, 0, stream));
  inThread("expectNotifyCode", key, 507022);
  ok(rt.notify_set_import_pid(notify, [process.pid]));
  expect(ok(rt.stream_query(stream))).toBe(1);
  inThread("recordNotify", key);
  ok(rt.synchronize_stream(stream));
  const value = new BigUint64Array(1);
  ok(rt.memcpy(value, 8, word, 8, 2));
  expect(value[0]).toBe(5n);
  ok(rt.get_notify_id(notify)); // the import's end did not end it
  const open = ok(rt.notify_get_export_key(notify, 65, 2));
  expect(codeOf(rt.notify_import_by_key(open, 2))).toBe(0);
  ok(rt.destroy_notify(notify));
  ok(rt.destroy_notify(notify));
  expect(codeOf(rt.notify_import_by_key(open, 0))).toBe(507022);
  expect(codeOf(rt.notify_get_export_key(ok(rt.create_notify(0)), 64, 0))).toBe(107000);
});

test("shareable handles of the second version, and the link of imports", () => {
  covers(
    "rt.mem_export_to_shareable_handle_v2",
    "rt.mem_set_pid_to_shareable_handle_v2",
    "rt.mem_import_from_shareable_handle_v2",
    "rt.ipc_mem_set_attr",
  );
  begin("inline");
  const [first, second] = [ok(rt.reserve_mem_address(UNIT, 0, 0, 0)), ok(rt.reserve_mem_address(UNIT, 0, 0, 0))];
  const handle = ok(rt.malloc_physical(UNIT, PROP, 0));
  ok(rt.map_mem(first, UNIT, 0, handle, 0));
  ok(rt.memset(first, UNIT, 9, UNIT));
  const shareable = ok(rt.mem_export_to_shareable_handle_v2(handle, 0, 1));
  expect(codeOf(rt.mem_import_from_shareable_handle_v2(shareable, 1, 0))).toBe(507022);
  ok(rt.mem_set_pid_to_shareable_handle_v2(shareable, 1, [process.pid]));
  ok(rt.map_mem(second, UNIT, 0, ok(rt.mem_import_from_shareable_handle_v2(shareable, 1, 0)), 0));
  const bytes = new Uint8Array(16);
  ok(rt.memcpy(bytes, 16, second + UNIT - 16, 16, 2));
  expect([...bytes]).toEqual(new Array(16).fill(9));
  expect(codeOf(rt.mem_export_to_shareable_handle_v2(handle, 0, 2))).toBe(207000);
  expect(rt.mem_set_pid_to_shareable_handle_v2(shareable, 3, [1])).toBe(107000);
  const key = ok(rt.ipc_mem_get_export_key(ok(rt.malloc(4096, 0)), 4096, 65, 1));
  ok(rt.ipc_mem_set_attr(key, 0, 1));
  expect(rt.ipc_mem_set_attr(key, 0, 0)).toBe(207021);
  expect(rt.ipc_mem_set_attr(key, 1, 0)).toBe(107000);
  ok(rt.ipc_mem_close(key));
  expect(rt.ipc_mem_set_attr(key, 0, 1)).toBe(507899);
});
