/** Kernels beyond a plain launch: variables of binaries, arguments in the user's memory, what exceptions tell, limits of cores. */
import { acl } from "npurt/acl";
import {
  activeData,
  constantGlobal,
  dylink,
  exportFunction,
  exportGlobal,
  globalGet,
  I32,
  importGlobal,
  importMemory,
  type,
  wasm,
} from "../unit/user-kernels/wasm";
import { codeOf, covers, finish, ok, start } from "./harness";
import { compileText, helperKernels } from "./kernels/build";

const { rt, util } = acl;
let stream = 0;
let binary = 0;

/** Peak: most blocks that were inside at the same time; every block is counted. */
const OWN = `
  @external("env", "block_index") declare function blockIndex(): u32;
  export function Peak(words: usize): void {
    const now = atomic.add<u32>(words, 1) + 1;
    let peak = atomic.load<u32>(words, 4);
    while (peak < now) { const seen = atomic.cmpxchg<u32>(words, peak, now, 4); if (seen == peak) break; peak = seen; }
    for (let i = 0; i < 100000; i++) atomic.load<u32>(words);
    atomic.sub<u32>(words, 1);
    atomic.add<u32>(words + 8 + ((<usize>blockIndex()) << 2), 1);
  }
  export function FailAt(words: usize, block: u32): void { if (blockIndex() == block) unreachable(); }`;
let ownKernels: Uint8Array;
beforeAll(() => {
  ownKernels = compileText(OWN);
});

beforeEach(() => {
  start({ driver: "threads", cores: 4 });
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
  binary = ok(rt.binary_load_from_file(helperKernels(), []));
});
afterEach(finish);

const fn = (name: string): number => ok(rt.binary_get_function(binary, name));
const address = (value: number): BigUint64Array => BigUint64Array.of(BigInt(value));
const zeros = (bytes: number): number => {
  const place = ok(rt.malloc(bytes, 0));
  ok(rt.memset(place, bytes, 0, bytes));
  return place;
};
const read = (place: number, count = 1): number[] => {
  const data = new Int32Array(count);
  ok(rt.memcpy(data, 4 * count, place, 4 * count, 2));
  return [...data];
};
const load = (bytes: Uint8Array): number => ok(rt.binary_load_from_data(bytes, bytes.length));

describe("variables of a binary", () => {
  /** Run(out): *out = table[1]. Static data: `first` = 8 bytes, `table` = 8 bytes. */
  const module = (): Uint8Array =>
    wasm({
      custom: dylink(16, 2),
      types: [type([I32])],
      imports: [importMemory(), importGlobal("__memory_base", I32, 0)],
      globals: [constantGlobal(0), constantGlobal(8)],
      functions: [[0, [0x20, 0, ...globalGet(0), 0x28, 2, 12, 0x36, 2, 0]]],
      exports: [exportFunction("Run", 0), exportGlobal("first", 1), exportGlobal("table", 2)],
      data: [activeData(globalGet(0), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])],
    });

  test("have an address and a size, can be copied to and from, and the kernel sees it", () => {
    covers("rt.get_symbol_address", "rt.get_symbol_size", "rt.binary_get_global", "rt.memcpy_to_symbol", "rt.memcpy_from_symbol");
    covers("rt.memcpy_to_symbol_async", "rt.memcpy_from_symbol_async");
    const own = load(module());
    const run = ok(rt.binary_get_function(own, "Run"));
    const out = zeros(4);
    const launch = (): void => {
      ok(rt.launch_kernel_with_args_array(run, 1, stream, [], [address(out)]));
      ok(rt.synchronize_stream(stream));
    };
    launch();
    expect(read(out)).toEqual([4]);
    const table = ok(rt.get_symbol_address(own, "table"));
    expect(ok(rt.binary_get_global(own, "table"))).toEqual([table, 8]);
    expect(ok(rt.get_symbol_size(own, "first"))).toBe(8);
    expect(table - ok(rt.get_symbol_address(own, "first"))).toBe(8);
    expect(read(table, 2)).toEqual([3, 4]);
    ok(rt.memcpy_to_symbol(own, "table", Int32Array.of(77), 4, 4, 1));
    launch();
    expect(read(out)).toEqual([77]);
    const host = ok(rt.malloc_host(8));
    ok(rt.memcpy(host, 8, Int32Array.of(5, 6), 8, 0));
    ok(rt.memcpy_to_symbol_async(own, "table", host, 8, 0, 1, stream));
    const back = ok(rt.malloc_host(8));
    ok(rt.memcpy_from_symbol_async(back, 8, own, "table", 8, 0, 2, stream));
    ok(rt.synchronize_stream(stream));
    expect([...new Int32Array(Uint8Array.from(util.ptr_to_bytes(back, 8)).buffer)]).toEqual([5, 6]);
    const plain = new Int32Array(1);
    ok(rt.memcpy_from_symbol(plain, 4, own, "table", 4, 4, 2));
    expect(plain[0]).toBe(6);
  });

  test("what is not there, or longer than the variable, has its code", () => {
    const own = load(module());
    expect(codeOf(rt.get_symbol_address(own, "tabel"))).toBe(107042);
    expect(acl.get_recent_err_msg()).toContain('did you mean "table"');
    expect(rt.memcpy_to_symbol(own, "table", new Int32Array(3), 12, 0, 1)).toBe(107043);
    expect(rt.memcpy_to_symbol(own, "table", new Int32Array(2), 8, 4, 1)).toBe(107043);
    expect(rt.memcpy_from_symbol(new Int32Array(1), 4, own, "table", 8, 0, 2)).toBe(107000);
    ok(rt.binary_unload(own));
    expect(codeOf(rt.get_symbol_size(own, "table"))).toBe(107017);
  });
});

describe("arguments", () => {
  test("in memory of the user: what stands there at launch counts", () => {
    covers("rt.kernel_args_init_by_user_mem", "rt.kernel_args_get_handle_mem_size", "rt.get_function_size");
    const write = fn("WriteDo");
    const [none, code] = ok(rt.get_function_size(write));
    expect(none).toBe(0);
    expect(code).toBeGreaterThan(2);
    const handles = new Uint8Array(ok(rt.kernel_args_get_handle_mem_size(write)));
    const slots = new BigUint64Array(2);
    const list = ok(rt.kernel_args_init_by_user_mem(write, handles, slots, 16));
    expect(Number(new BigUint64Array(handles.buffer)[0])).toBe(list);
    const word = zeros(4);
    ok(rt.kernel_args_append(list, address(word), 8));
    ok(rt.kernel_args_append(list, Int32Array.of(41), 4));
    ok(rt.kernel_args_finalize(list));
    expect(slots[1]).toBe(41n);
    slots[1] = 42n;
    ok(rt.launch_kernel_with_config(write, 1, stream, [], list));
    slots[1] = 43n; // taken at the launch
    ok(rt.synchronize_stream(stream));
    expect(read(word)).toEqual([42]);
    expect(codeOf(rt.kernel_args_init_by_user_mem(write, handles, slots, 8))).toBe(107000);
  });

  test("as a list of pointers, each as its parameter wants it", () => {
    covers("rt.launch_kernel_with_args_array");
    const out = zeros(48);
    const echo = fn("Echo");
    const args = [
      address(out),
      Int32Array.of(-5),
      Uint32Array.of(7),
      BigInt64Array.of(-9n),
      BigUint64Array.of(11n),
      Float32Array.of(1.5),
      Float64Array.of(-2.25),
    ];
    ok(rt.launch_kernel_with_args_array(echo, 1, stream, [], args));
    ok(rt.synchronize_stream(stream));
    const bytes = new DataView(new ArrayBuffer(48));
    ok(rt.memcpy(bytes, 48, out, 48, 2));
    expect([bytes.getInt32(0, true), bytes.getUint32(8, true), bytes.getBigInt64(16, true), bytes.getBigUint64(24, true)]).toEqual([-5, 7, -9n, 11n]);
    expect([bytes.getFloat32(32, true), bytes.getFloat64(40, true)]).toEqual([1.5, -2.25]);
    expect(rt.launch_kernel_with_args_array(echo, 1, stream, [], args.slice(1))).toBe(107000);
    expect(rt.launch_kernel_with_args_array(echo, 1, stream, [], [...args.slice(0, 6), 0])).toBe(107000);
  });
});

describe("exceptions of kernels", () => {
  test("tell function and arguments, and the callback of the binary", () => {
    covers("rt.binary_set_exception_callback", "rt.get_args_from_exception_info", "rt.get_func_handle_from_exception_info");
    const other = load(ownKernels);
    const fail = ok(rt.binary_get_function(other, "FailAt"));
    const error = fn("ErrorOP");
    const seen: unknown[] = [];
    const note = (info: number, who: unknown): void => {
      const [place, size] = ok(rt.get_args_from_exception_info(info));
      seen.push([who, ok(rt.get_func_handle_from_exception_info(info)), rt.get_error_code_from_exception_info(info), size]);
      seen.push(Number(new BigUint64Array(Uint8Array.from(util.ptr_to_bytes(place as number, 8)).buffer)[0]));
    };
    ok(rt.binary_set_exception_callback(other, note, "other"));
    const words = zeros(16);
    ok(rt.launch_kernel_with_args_array(error, 1, stream, [], [address(words)]));
    ok(rt.launch_kernel_with_args_array(fail, 1, stream, [], [address(words + 4), Uint32Array.of(0)]));
    expect(rt.synchronize_stream(stream)).toBe(507035);
    expect(seen).toEqual([["other", fail, 507035, 16], words + 4]);
    ok(rt.binary_set_exception_callback(other, null));
    const onDevice = ok(rt.malloc(8, 0));
    ok(rt.memcpy(onDevice, 8, address(words), 8, 1));
    let place: unknown;
    ok(
      rt.set_exception_info_callback((info: number) => {
        place = rt.get_args_from_exception_info(info);
      }),
    );
    ok(rt.launch_kernel(error, 1, onDevice, 8, stream));
    expect(rt.synchronize_stream(stream)).toBe(507035);
    expect(place).toEqual([onDevice, 8, 0]);
    expect(seen).toHaveLength(2);
  });

  test("callbacks come without a synchronize: at the next turn of the event loop, or while the thread blocks for another stream", async () => {
    const told: number[] = [];
    ok(rt.set_exception_info_callback((info: number) => told.push(rt.get_stream_id_from_exception_info(info))));
    const id = ok(rt.stream_get_id(stream));
    ok(rt.launch_kernel_with_args_array(fn("ErrorOP"), 1, stream, [], [address(zeros(4))]));
    for (const end = Date.now() + 10_000; told.length === 0 && Date.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(told).toEqual([id]);
    // Another stream waits for the end of the failing one's next task; this thread waits for that stream only.
    const [gate, other] = [zeros(8), ok(rt.create_stream())];
    ok(rt.value_wait(gate, 1, 0, other));
    let seen = -1;
    ok(
      rt.set_exception_info_callback((info: number) => {
        seen = rt.get_stream_id_from_exception_info(info);
        ok(rt.value_write(gate, 1, 0, stream)); // only the callback lets it go on
      }),
    );
    ok(rt.launch_kernel_with_args_array(fn("ErrorOP"), 1, stream, [], [address(zeros(4))]));
    ok(rt.synchronize_stream_with_timeout(other, 20_000));
    expect(seen).toBe(id);
  });
});

describe("core limits", () => {
  const BLOCKS = 24;
  const peakOf = (func: number, own: number): number => {
    const words = zeros(8 + 4 * BLOCKS);
    ok(rt.launch_kernel_with_args_array(func, BLOCKS, own, [], [address(words)]));
    ok(rt.synchronize_stream(own));
    const [inside, peak, ...counts] = read(words, 2 + BLOCKS);
    expect(inside).toBe(0);
    expect(counts).toEqual(counts.map(() => 1));
    return peak as number;
  };

  test("a limited launch never has more blocks at work than cores, and every block runs once", () => {
    const own = load(ownKernels);
    const peak = ok(rt.binary_get_function(own, "Peak"));
    for (const limit of [1, 2]) {
      ok(rt.set_stream_res_limit(stream, 1, limit));
      for (let i = 0; i < 3; i++) expect(peakOf(peak, stream)).toBeLessThanOrEqual(limit);
    }
    ok(rt.reset_stream_res_limit(stream));
    ok(rt.set_device_res_limit(0, 1, 1));
    expect(peakOf(peak, stream)).toBe(1);
    ok(rt.set_stream_res_limit(stream, 1, 3)); // the stream's limit goes before the device's
    expect(peakOf(peak, stream)).toBeLessThanOrEqual(3);
    const free = ok(rt.create_stream());
    expect(peakOf(peak, free)).toBe(1);
  });

  test("a fault in a limited launch names its block", () => {
    const own = load(ownKernels);
    ok(rt.set_stream_res_limit(stream, 1, 1));
    ok(rt.launch_kernel_with_args_array(ok(rt.binary_get_function(own, "FailAt")), 9, stream, [], [address(zeros(4)), Uint32Array.of(7)]));
    expect(rt.synchronize_stream(stream)).toBe(507035);
    expect(acl.get_recent_err_msg()).toContain("block 7 of");
  });
});
