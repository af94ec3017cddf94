/** Init and finalize, the configuration, versions, devices and their limits, errors. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { acl } from "npurt/acl";
import { deviceIfOpen } from "../../dist/lib/acl/devices";
import { SOC_PROFILES } from "../../dist/lib/acl/soc";
import { codeOf, configFile, covers, finish, ok, start } from "./harness";

const { rt } = acl;
afterEach(finish);

describe("init and finalize", () => {
  test("counts, and their codes", () => {
    covers("init", "finalize", "finalize_reference");
    expect(acl.init()).toBe(0);
    expect(acl.init()).toBe(100002);
    expect(acl.finalize_reference()).toEqual([1, 0]);
    expect(acl.finalize_reference()).toEqual([0, 0]);
    expect(codeOf(acl.finalize_reference())).toBe(100037);
    expect(acl.finalize()).toBe(100037);
    expect(acl.init()).toBe(0);
    expect(acl.finalize()).toBe(0);
    expect(acl.finalize()).toBe(100037);
  });

  test("bad files: the code says whether path, JSON or value is wrong", () => {
    expect(acl.init("/no/such/file.json")).toBe(100003);
    expect(acl.init(configFile("{"))).toBe(100006);
    expect(acl.init(configFile("[]"))).toBe(100006);
    expect(acl.init(configFile(`${'{"a":'.repeat(11)}1${"}".repeat(11)}`))).toBe(100006);
    expect(acl.init(configFile({ emulator: { devcies: 2 } }))).toBe(107000);
    expect(acl.get_recent_err_msg()).toContain('did you mean "devices"');
    expect(acl.init(configFile({ emulator: { soc: "Ascend910B33" } }))).toBe(107000);
    expect(acl.init(configFile({ emulator: { clock: "virtual", driver: "threads" } }))).toBe(107000);
    expect(acl.init(configFile({ StackSize: { aicore_stack_size: 1000 } }))).toBe(107000);
    expect(acl.init(configFile({ StackSize: { aicore_stack_size: 65536 }, dump: {}, max_opqueue_num: 20000 }))).toBe(0);
    expect(acl.init(5 as never)).toBe(100000);
  });

  test("the first configuration counts; a new one after finalize", () => {
    start({ soc: "Ascend310P3", devices: 2 });
    expect(acl.init(configFile({ emulator: { soc: "Ascend910A" } }))).toBe(100002);
    expect(acl.get_soc_name()).toBe("Ascend310P3");
    expect(ok(rt.get_device_count())).toBe(2);
    ok(acl.finalize());
    start({ soc: "Ascend910A", devices: 3 });
    expect(acl.get_soc_name()).toBe("Ascend910A");
    expect(ok(rt.get_device_count())).toBe(3);
  });

  test("hooks run at init, at once if it is over, and at finalize", () => {
    covers("init_callback_register", "init_callback_unregister", "finalize_callback_register", "finalize_callback_unregister");
    const heard: string[] = [];
    const hook = (): number => heard.push("init");
    const end = (): number => heard.push("end");
    ok(acl.init_callback_register(0, hook));
    ok(acl.finalize_callback_register(0, end));
    start();
    ok(acl.init_callback_register(1, hook));
    expect(heard).toEqual(["init", "init"]);
    ok(acl.finalize());
    expect(heard).toEqual(["init", "init", "end"]);
    ok(acl.init_callback_unregister(0, hook));
    ok(acl.init_callback_unregister(1, hook));
    ok(acl.finalize_callback_unregister(0, end));
    expect(acl.init_callback_unregister(0, hook)).toBe(100000);
    start();
    expect(heard).toHaveLength(3);
  });

  test("handles of before finalize are stale after it", () => {
    start();
    ok(rt.set_device(0));
    const [context] = rt.get_context();
    const stream = ok(rt.create_stream());
    ok(acl.finalize());
    start();
    ok(rt.set_device(0));
    expect(rt.get_context()[0]).not.toBe(context);
    expect(rt.synchronize_stream(stream)).toBe(107003);
  });
});

describe("facts", () => {
  test("versions, chip, run mode, dtypes", () => {
    covers("get_version", "get_version_str", "get_version_num", "get_cann_version", "get_soc_name", "rt.get_run_mode", "data_type_size");
    start();
    const [major, minor, patch, code] = acl.get_version();
    expect([major, minor, patch, code]).toEqual([1, 17, 0, 0]);
    const version = ok(acl.get_version_str("runtime"));
    const [a, b, c] = version.split(".").map(Number) as [number, number, number];
    expect(ok(acl.get_version_num("runtime"))).toBe(a * 1e7 + b * 1e5 + c * 1e3);
    expect(ok(acl.get_cann_version(0))).toMatchObject({ version });
    const own = JSON.parse(fs.readFileSync(path.join(__dirname, "../../package.json"), "utf8")) as { version: string };
    expect(ok(acl.get_version_str("npurt"))).toBe(own.version);
    expect(codeOf(acl.get_version_str("nonsense"))).toBe(107000);
    expect(codeOf(acl.get_cann_version(99))).toBe(107000);
    expect(ok(rt.get_run_mode())).toBe(1);
    expect([0, 1, 2, 9, 12, 27, 999].map((dtype) => acl.data_type_size(dtype))).toEqual([4, 2, 1, 8, 1, 2, 0]);
  });

  test("half precision: known pairs, ties to even, saturation, and every finite value there and back", () => {
    covers("float16_to_float", "float_to_float16");
    expect(acl.float_to_float16(1.625)).toBe(0x3e80);
    expect(acl.float16_to_float(0x3e80)).toBe(1.625);
    expect(acl.float_to_float16(1 + 2 ** -11)).toBe(0x3c00);
    expect(acl.float_to_float16(1 + 3 * 2 ** -11)).toBe(0x3c02);
    expect(acl.float_to_float16(2 ** -25)).toBe(0);
    expect(acl.float_to_float16(2 ** -24)).toBe(1);
    expect(acl.float_to_float16(-0)).toBe(0x8000);
    for (const value of [65520, 1e9, Number.POSITIVE_INFINITY, Number.NaN]) {
      expect(acl.float16_to_float(acl.float_to_float16(value))).toBe(65504);
    }
    expect(acl.float16_to_float(acl.float_to_float16(-1e9))).toBe(-65504);
    const finite = Array.from({ length: 0x10000 }, (_, bits) => bits).filter((bits) => ((bits >> 10) & 31) !== 31);
    expect(finite.filter((bits) => acl.float_to_float16(acl.float16_to_float(bits)) !== bits)).toEqual([]);
  });

  test("attributes and capabilities", () => {
    covers(
      "get_cann_attribute_list",
      "get_cann_attribute",
      "get_device_capability",
      "rt.get_device_capability",
      "rt.set_device_sat_mode",
      "rt.get_device_sat_mode",
    );
    start();
    ok(rt.set_device(0));
    expect(ok(acl.get_cann_attribute_list())).toEqual([[0, 1, 2], 3]);
    expect([0, 1, 2].map((one) => ok(acl.get_cann_attribute(one)))).toEqual([1, 1, 0]);
    expect(codeOf(acl.get_cann_attribute(3))).toBe(100000);
    expect(ok(acl.get_device_capability(0, 1))).toBe(1);
    expect(ok(rt.get_device_capability(0, 1))).toBe(1);
    expect(codeOf(rt.get_device_capability(0, 2))).toBe(107000);
    expect(ok(rt.get_device_sat_mode())).toBe(1);
    expect(rt.set_device_sat_mode(1)).toBe(0);
    expect(rt.set_device_sat_mode(0)).toBe(207000);
  });

  test("device information of each profile", () => {
    covers(
      "rt.get_device_info",
      "rt.get_device_utilization_rate",
      "rt.query_device_status",
      "rt.device_get_uuid",
      "rt.device_get_bare_tgid",
      "rt.set_ts_device",
    );
    for (const { name, cubeCores, vectorCores, bufferBytes } of SOC_PROFILES) {
      start({ soc: name });
      expect([102, 201, 204, 301, 402].map((attribute) => ok(rt.get_device_info(1, attribute)))).toEqual([
        cubeCores,
        vectorCores,
        bufferBytes,
        32 * 2 ** 20,
        1,
      ]);
      ok(acl.finalize());
    }
    start();
    expect(codeOf(rt.get_device_info(0, 7))).toBe(107000);
    expect(codeOf(rt.get_device_info(4, 1))).toBe(107001);
    ok(rt.set_device(0));
    ok(rt.malloc(16 * 2 ** 20, 0));
    const rate = ok(rt.get_device_utilization_rate(0));
    expect(rate).toMatchObject({ cube_utilization: -1, vector_utilization: -1 });
    expect(rate.memory_utilization).toBeGreaterThan(50);
    expect(ok(rt.query_device_status(0))).toBe(0);
    ok(rt.set_device(3));
    deviceIfOpen(3)?.machine.lose("test");
    expect([ok(rt.query_device_status(3)), ok(rt.query_device_status(0))]).toEqual([1, 0]);
    expect(ok(rt.device_get_uuid(0)).bytes).toHaveLength(16);
    expect(ok(rt.device_get_uuid(0))).not.toEqual(ok(rt.device_get_uuid(1)));
    expect(ok(rt.device_get_bare_tgid())).toBe(process.pid);
    expect([rt.set_ts_device(0), rt.set_ts_device(2)]).toEqual([0, 107000]);
  });
});

describe("visible devices", () => {
  afterEach(() => {
    delete process.env["ASCEND_RT_VISIBLE_DEVICES"];
  });
  test.each([
    ["2,3", [2, 3]],
    ["2,0", [2]],
    ["1,x,2", [1]],
    ["0,9", [0]],
    [" 1 , 3 ", [1, 3]],
  ])("%s", (list, visible) => {
    covers("rt.get_device_count", "rt.get_logic_dev_id_by_user_dev_id", "rt.get_user_dev_id_by_logic_dev_id");
    process.env["ASCEND_RT_VISIBLE_DEVICES"] = list;
    start();
    expect(ok(rt.get_device_count())).toBe(visible.length);
    expect(visible.map((_, id) => ok(rt.get_logic_dev_id_by_user_dev_id(id)))).toEqual(visible);
    expect(visible.map((index) => ok(rt.get_user_dev_id_by_logic_dev_id(index)))).toEqual(visible.map((_, id) => id));
    expect(rt.set_device(visible.length)).toBe(107001);
    ok(rt.set_device(visible.length - 1));
    expect(ok(rt.get_device())).toBe(visible.length - 1);
    expect(ok(rt.get_device_info(visible.length - 1, 402))).toBe(visible.at(-1));
  });

  test("none", () => {
    process.env["ASCEND_RT_VISIBLE_DEVICES"] = "";
    start();
    expect(codeOf(rt.get_device_count())).toBe(207004);
    expect(rt.set_device(0)).toBe(107001);
  });

  test("bus ids and links", () => {
    covers(
      "rt.device_get_pci_bus_id",
      "rt.device_get_by_pci_bus_id",
      "rt.get_devices_topo",
      "rt.get_logic_dev_id_by_phy_dev_id",
      "rt.get_phy_dev_id_by_logic_dev_id",
    );
    start();
    expect(ok(rt.device_get_by_pci_bus_id(ok(rt.device_get_pci_bus_id(2))))).toBe(2);
    expect(codeOf(rt.device_get_by_pci_bus_id("0000:99:00.0"))).toBe(107001);
    expect(ok(rt.get_devices_topo(0, 1))).toBe(1);
    expect(codeOf(rt.get_devices_topo(1, 1))).toBe(107000);
    expect(ok(rt.get_logic_dev_id_by_phy_dev_id(3))).toBe(3);
    expect(codeOf(rt.get_phy_dev_id_by_logic_dev_id(4))).toBe(107001);
  });
});

test("core limits: the stream's, then the device's, then the hardware's", () => {
  covers("rt.set_device_res_limit", "rt.get_device_res_limit", "rt.reset_device_res_limit", "rt.set_stream_res_limit", "rt.get_stream_res_limit");
  covers("rt.reset_stream_res_limit", "rt.use_stream_res_in_current_thread", "rt.unuse_stream_res_in_current_thread", "rt.get_res_in_current_thread");
  covers("rt.device_set_limit", "rt.device_get_limit");
  start();
  ok(rt.set_device(0));
  const stream = ok(rt.create_stream());
  expect(ok(rt.get_res_in_current_thread(1))).toBe(40);
  ok(rt.set_device_res_limit(0, 1, 10));
  expect([ok(rt.get_device_res_limit(0, 1)), ok(rt.get_device_res_limit(0, 0)), ok(rt.get_stream_res_limit(stream, 1))]).toEqual([10, 20, 10]);
  ok(rt.set_stream_res_limit(stream, 1, 3));
  expect(ok(rt.get_res_in_current_thread(1))).toBe(10);
  ok(rt.use_stream_res_in_current_thread(stream));
  expect(ok(rt.get_res_in_current_thread(1))).toBe(3);
  ok(rt.reset_stream_res_limit(stream));
  expect(ok(rt.get_res_in_current_thread(1))).toBe(10);
  ok(rt.unuse_stream_res_in_current_thread(stream));
  expect(rt.unuse_stream_res_in_current_thread(stream)).toBe(107000);
  ok(rt.reset_device_res_limit(0));
  expect(ok(rt.get_res_in_current_thread(1))).toBe(40);
  expect(rt.set_device_res_limit(0, 1, 41)).toBe(107000);
  expect(rt.set_device_res_limit(0, 5, 1)).toBe(107000);
  ok(rt.device_set_limit(0, 2, 4096));
  expect(ok(rt.device_get_limit(0, 2))).toBe(4096);
  expect(codeOf(rt.device_get_limit(0, 77))).toBe(107000);
});

test("system parameters: of the context 107021 before they are set, of the process 0", () => {
  covers("rt.ctx_set_sys_param_opt", "rt.ctx_get_sys_param_opt", "rt.set_sys_param_opt", "rt.get_sys_param_opt");
  start();
  ok(rt.set_device(0));
  expect(codeOf(rt.ctx_get_sys_param_opt(0))).toBe(107021);
  ok(rt.ctx_set_sys_param_opt(0, 2));
  expect(ok(rt.ctx_get_sys_param_opt(0))).toBe(2);
  ok(rt.create_context(0));
  expect(codeOf(rt.ctx_get_sys_param_opt(0))).toBe(107021);
  expect(ok(rt.get_sys_param_opt(1))).toBe(0);
  ok(rt.set_sys_param_opt(1, 1));
  expect(ok(rt.get_sys_param_opt(1))).toBe(1);
  expect(rt.set_sys_param_opt(1, 2)).toBe(107000);
  expect(rt.set_sys_param_opt(3, 0)).toBe(107000);
});

test("kernel time limits are rounded up to intervals", () => {
  covers(
    "rt.set_op_execute_time_out",
    "rt.set_op_execute_time_out_with_ms",
    "rt.set_op_execute_timeout_v2",
    "rt.get_op_timeout_interval",
    "rt.get_op_execute_timeout",
  );
  start();
  const interval = ok(rt.get_op_timeout_interval());
  expect(ok(rt.set_op_execute_timeout_v2(1))).toBe(interval);
  expect(ok(rt.set_op_execute_timeout_v2(interval + 1))).toBe(2 * interval);
  expect(ok(rt.set_op_execute_timeout_v2(1e15))).toBe(254 * interval);
  ok(rt.set_op_execute_time_out(1));
  expect(ok(rt.get_op_execute_timeout())).toBe(Math.round(interval / 1000));
  ok(rt.set_op_execute_time_out_with_ms(0));
  expect(ok(rt.get_op_execute_timeout())).toBe(Math.round((254 * interval) / 1000));
  expect(rt.set_op_execute_time_out(-1)).toBe(107000);
});

describe("errors", () => {
  test("peek keeps, get clears; the message is read once and has CANN's shape", () => {
    covers("rt.peek_at_last_error", "rt.get_last_error", "get_recent_err_msg", "rt.get_error_verbose", "rt.repair_error");
    start();
    expect([rt.peek_at_last_error(0), rt.get_last_error(0), acl.get_recent_err_msg()]).toEqual([0, 0, null]);
    expect(rt.set_device(99)).toBe(107001);
    expect([rt.peek_at_last_error(0), rt.peek_at_last_error(0)]).toEqual([107001, 107001]);
    expect(ok(rt.get_error_verbose(0))).toMatchObject({ code: 107001, errorType: 5, tryRepair: 0 });
    expect(acl.get_recent_err_msg()).toMatch(
      /^\[\d+\] \S+ \w+\(E[A-Z]\d{4}\): acl\.rt\.set_device failed with 107001: [\s\S]*Reason: [\s\S]*Solution: [\s\S]*TraceBack/,
    );
    expect(acl.get_recent_err_msg()).toBeNull();
    expect([rt.get_last_error(0), rt.get_last_error(0)]).toEqual([107001, 0]);
    expect(rt.peek_at_last_error(1)).toBe(107000);
    expect(rt.repair_error(0)).toBe(207000);
  });

  test("one message for the process, if the configuration says so", () => {
    start({}, { err_msg_mode: "1" });
    expect(rt.set_device(99)).toBe(107001);
    expect(acl.get_recent_err_msg()).toContain("107001");
    expect(acl.get_recent_err_msg()).toBeNull();
  });

  test("overflow status is refused with a reason, not ignored", () => {
    start();
    ok(rt.set_device(0));
    expect(rt.get_overflow_status(0, 64, 0)).toBe(207000);
    expect(acl.get_recent_err_msg()).toContain("saturation");
    expect(rt.reset_overflow_status(0)).toBe(207000);
  });

  test("the application's log goes to a file under ASCEND_PROCESS_LOG_PATH, by level", () => {
    covers("app_log");
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-log-"));
    const before = process.env["ASCEND_PROCESS_LOG_PATH"];
    process.env["ASCEND_PROCESS_LOG_PATH"] = folder;
    try {
      acl.app_log(1, "not written");
      acl.app_log(3, "written down");
      const files = fs.readdirSync(path.join(folder, "debug", "plog"));
      expect(files).toHaveLength(1);
      const text = fs.readFileSync(path.join(folder, "debug", "plog", files[0] as string), "utf8");
      expect(text).toMatch(new RegExp(`^\\[ERROR\\] APP\\(${process.pid},node\\):.* written down\n$`));
    } finally {
      process.env["ASCEND_PROCESS_LOG_PATH"] = before;
      fs.rmSync(folder, { recursive: true });
    }
  });
});
