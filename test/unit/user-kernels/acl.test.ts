/** Kernel launch as pyACL has it: binaries, functions, argument lists, placeholders, launches, and every code on the way. */
import fs from "node:fs";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "../../acl/harness";
import { helperKernels, helperKernelsInC } from "../../acl/kernels/build";
import { wasm } from "./wasm";

const { rt } = acl;
const COUNT = 64;
let stream = 0;
let binary = 0;

beforeEach(() => {
  start({ driver: "threads" });
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
  binary = ok(rt.binary_load_from_file(helperKernels(), []));
});
afterEach(finish);

const fn = (name: string): number => ok(rt.binary_get_function(binary, name));
/** An address as an argument: 8 bytes. */
const address = (value: number): BigUint64Array => BigUint64Array.of(BigInt(value));
const u32 = (value: number): Uint32Array => Uint32Array.of(value);

function floats(values: ArrayLike<number>): number {
  const data = Float32Array.from(values);
  const place = ok(rt.malloc(data.byteLength, 0));
  ok(rt.memcpy(place, data.byteLength, data, data.byteLength, 1));
  return place;
}

function read(place: number, count = 1): number[] {
  const data = new Int32Array(count);
  ok(rt.memcpy(data, data.byteLength, place, data.byteLength, 2));
  return [...data];
}

function readFloats(place: number): Float32Array {
  const data = new Float32Array(COUNT);
  ok(rt.memcpy(data, data.byteLength, place, data.byteLength, 2));
  return data;
}

function argumentsOf(func: number, ...values: readonly ArrayBufferView[]): number {
  const list = ok(rt.kernel_args_init(func));
  for (const value of values) {
    ok(rt.kernel_args_append(list, value, value.byteLength));
  }
  ok(rt.kernel_args_finalize(list));
  return list;
}

const x = Float32Array.from({ length: COUNT }, (_, i) => i * 1.25);
const y = Float32Array.from({ length: COUNT }, (_, i) => 100 - i);
const sum = x.map((value, i) => Math.fround(value + y[i]!));

describe("program 18: z = x + y through a kernel binary", () => {
  test("argument list", () => {
    covers("rt.binary_load_from_file", "rt.binary_get_function", "rt.kernel_args_init", "rt.kernel_args_append", "rt.kernel_args_finalize");
    covers("rt.launch_kernel_with_config", "rt.binary_unload");
    const add = fn("AddDo");
    const z = floats(new Float32Array(COUNT));
    const list = argumentsOf(add, address(floats(x)), address(floats(y)), address(z), u32(COUNT));
    for (const blocks of [1, 2, 8]) {
      ok(rt.memset(z, 4 * COUNT, 0, 4 * COUNT));
      ok(rt.launch_kernel_with_config(add, blocks, stream, [], list, 0));
      ok(rt.synchronize_stream(stream));
      expect(readFloats(z)).toEqual(sum);
    }
    ok(rt.binary_unload(binary));
    expect(codeOf(rt.launch_kernel_with_config(add, 1, stream, [], list))).toBe(107017);
  });

  test("placeholders: the data travels with the launch", () => {
    covers("rt.kernel_args_append_place_holder", "rt.kernel_args_get_place_holder_buffer");
    const add = fn("AddDo");
    const z = floats(new Float32Array(COUNT));
    const list = ok(rt.kernel_args_init(add));
    const [first, second] = [x, y].map((data) => {
      const param = ok(rt.kernel_args_append_place_holder(list));
      const buffer = ok(rt.kernel_args_get_place_holder_buffer(list, param, data.byteLength));
      ok(rt.memcpy(buffer, data.byteLength, data, data.byteLength, 0));
      return buffer;
    }) as [number, number];
    ok(rt.kernel_args_append(list, address(z), 8));
    ok(rt.kernel_args_append(list, u32(COUNT), 4));
    ok(rt.kernel_args_finalize(list));
    const slow = fn("LongOP");
    const word = floats([0]);
    ok(rt.launch_kernel_with_config(slow, 1, stream, [], argumentsOf(slow, address(word))));
    ok(rt.launch_kernel_with_config(add, 4, stream, [], list));
    ok(rt.memset(first, 4 * COUNT, 0, 4 * COUNT)); // after the launch: the kernel still sees what was there
    ok(rt.memset(second, 4 * COUNT, 0, 4 * COUNT));
    ok(rt.synchronize_stream(stream));
    expect(readFloats(z)).toEqual(sum);
  });

  test("arguments in device memory and in host memory", () => {
    covers("rt.launch_kernel", "rt.launch_kernel_v2", "rt.launch_kernel_with_host_args", "rt.binary_load_from_data");
    const inC = fs.readFileSync(helperKernelsInC());
    const add = ok(rt.binary_get_function(ok(rt.binary_load_from_data(inC, inC.length)), "AddDo"));
    const z = floats(new Float32Array(COUNT));
    const packed = BigUint64Array.of(BigInt(floats(x)), BigInt(floats(y)), BigInt(z), BigInt(COUNT));
    const onDevice = ok(rt.malloc(32, 0));
    ok(rt.memcpy(onDevice, 32, packed, 32, 1));
    const launches = [
      () => rt.launch_kernel(add, 3, onDevice, 32, stream),
      () => rt.launch_kernel_v2(add, 3, onDevice, 32, [{ id: 7, value: 60 }], stream),
      () => rt.launch_kernel_with_host_args(add, 3, stream, [], packed, 32),
    ];
    for (const launch of launches) {
      ok(rt.memset(z, 4 * COUNT, 0, 4 * COUNT));
      ok(launch());
      ok(rt.synchronize_stream(stream));
      expect(readFloats(z)).toEqual(sum);
    }
    const behind = new Uint8Array(32 + 4 * COUNT);
    behind.set(new Uint8Array(packed.buffer));
    behind.set(new Uint8Array(x.buffer), 32);
    ok(rt.launch_kernel_with_host_args(add, 1, stream, [], behind, behind.length, [{ addrOffset: 8, dataOffset: 32 }]));
    ok(rt.synchronize_stream(stream));
    expect(readFloats(z)).toEqual(x.map((value) => value + value));
  });
});

test("an argument can be changed between launches; launches that are queued keep theirs", () => {
  covers("rt.kernel_args_para_update");
  const write = fn("WriteDo");
  const words = floats([0, 0, 0]);
  const list = ok(rt.kernel_args_init(write));
  const target = ok(rt.kernel_args_append(list, address(words), 8));
  const value = ok(rt.kernel_args_append(list, u32(7), 4));
  ok(rt.kernel_args_finalize(list));
  ok(rt.launch_kernel_with_config(write, 1, stream, [], list));
  ok(rt.kernel_args_para_update(list, target, address(words + 4), 8));
  ok(rt.kernel_args_para_update(list, value, u32(8), 4));
  ok(rt.launch_kernel_with_config(write, 1, stream, [], list));
  ok(rt.synchronize_stream(stream));
  expect(read(words, 3)).toEqual([7, 8, 0]);
  expect(codeOf(rt.kernel_args_para_update(list, value, address(1), 8))).toBe(107000);
});

test("what a function and its binary say of themselves", () => {
  covers("rt.get_function_name", "rt.get_function_addr", "rt.get_function_attribute", "rt.get_function_param_count", "rt.get_function_param_info");
  covers("rt.kernel_args_get_mem_size", "rt.binary_get_function_by_entry");
  const add = fn("AddDo");
  expect(ok(rt.get_function_name(add))).toBe("AddDo");
  expect(ok(rt.get_function_param_count(add))).toBe(4);
  expect(ok(rt.get_function_param_info(add, 3))).toEqual({ offset: 24, size: 8, type: "i32" });
  expect(codeOf(rt.get_function_param_info(add, 4))).toBe(107000);
  expect(ok(rt.kernel_args_get_mem_size(add, 4))).toBe(32);
  expect(ok(rt.get_function_attribute(add, 1))).toBe(2);
  const [cube, vector] = ok(rt.get_function_addr(add)) as readonly number[];
  expect([cube, vector! > 2 ** 36]).toEqual([0, true]);
  expect(ok(rt.binary_get_function(binary, "AddDo"))).toBe(add);
  expect(ok(rt.get_function_name(ok(rt.binary_get_function_by_entry(binary, 0))))).toBe("EasyOP");
  expect(codeOf(rt.binary_get_function_by_entry(binary, 1000))).toBe(507027);
});

test("the older way to load", () => {
  covers("rt.create_binary", "rt.binary_load", "rt.destroy_binary");
  const bytes = fs.readFileSync(helperKernels());
  const image = ok(rt.create_binary(bytes, bytes.length));
  const loaded = ok(rt.binary_load(image));
  ok(rt.destroy_binary(image));
  expect(codeOf(rt.binary_load(image))).toBe(107017);
  const word = floats([0]);
  const easy = ok(rt.binary_get_function(loaded, "EasyOP"));
  ok(rt.launch_kernel_with_config(easy, 1, stream, [], argumentsOf(easy, address(word))));
  ok(rt.synchronize_stream(stream));
  expect(read(word)).toEqual([1]);
});

test("failures of kernels come with the next synchronize, those of arguments with the call", () => {
  const [easy, error] = [fn("EasyOP"), fn("ErrorOP")];
  const word = floats([0]);
  const list = argumentsOf(easy, address(word));
  ok(rt.launch_kernel_with_config(easy, 1, stream, [], list));
  ok(rt.launch_kernel_with_config(error, 1, stream, [], argumentsOf(error, address(word))));
  expect(rt.synchronize_stream(stream)).toBe(507035);
  expect(acl.get_recent_err_msg()).toMatch(/block 0 of kernel "ErrorOP" executed an illegal instruction/);
  expect(rt.synchronize_stream(stream)).toBe(0);
  const runaway = fn("RunawayPolling");
  ok(rt.launch_kernel_with_config(runaway, 1, stream, [{ id: 8, value: 30_000 }], argumentsOf(runaway, address(word))));
  expect(rt.synchronize_stream(stream)).toBe(507034);
  expect(read(word)).toEqual([1]);

  expect(rt.launch_kernel_with_config(easy, 0, stream, [], list)).toBe(107000);
  expect(rt.launch_kernel_with_config(error, 1, stream, [], list)).toBe(107000); // the list of another function
  expect(rt.launch_kernel_with_config(easy, 1, stream, [{ id: 99, value: 1 }], list)).toBe(107000);
  expect(rt.launch_kernel_with_config(easy, 1, stream, [{ id: 7, value: -1 }], list)).toBe(107000);
  expect(rt.launch_kernel_with_config(stream, 1, stream, [], list)).toBe(107017);
  expect(rt.launch_kernel_with_config(easy, 1, stream, [], 0)).toBe(107000);
  expect(rt.launch_kernel(easy, 1, word, 4, stream)).toBe(107000); // 8 bytes per argument
  expect(rt.launch_kernel(easy, 1, address(word), 8, stream)).toBe(107000); // pageable host memory
  const other = ok(rt.create_context(0));
  expect(rt.launch_kernel_with_config(easy, 1, stream, [], list)).toBe(107003); // the stream of another context
  ok(rt.destroy_context(other));
  ok(rt.set_device(0));
  expect(read(word)).toEqual([1]);
});

test("argument lists are checked when they are made", () => {
  const write = fn("WriteDo");
  const list = ok(rt.kernel_args_init(write));
  expect(codeOf(rt.kernel_args_append(list, new Uint8Array(16), 16))).toBe(107000);
  expect(codeOf(rt.kernel_args_append(list, 0, 8))).toBe(107000);
  expect(rt.kernel_args_finalize(list)).toBe(107000);
  const holder = ok(rt.kernel_args_append_place_holder(list));
  const value = ok(rt.kernel_args_append(list, u32(1), 4));
  expect(rt.launch_kernel_with_config(write, 1, stream, [], list)).toBe(107000); // not finalized
  expect(rt.kernel_args_finalize(list)).toBe(107000); // the placeholder has no buffer
  expect(codeOf(rt.kernel_args_get_place_holder_buffer(list, value, 8))).toBe(107000);
  expect(codeOf(rt.kernel_args_get_place_holder_buffer(list, holder, 0))).toBe(107000);
  ok(rt.kernel_args_get_place_holder_buffer(list, holder, 8));
  ok(rt.kernel_args_finalize(list));
  expect(codeOf(rt.kernel_args_append(list, u32(1), 4))).toBe(107000);
  const echo = fn("Echo");
  const full = ok(rt.kernel_args_init(echo));
  for (let i = 0; i < 128; i++) {
    ok(rt.kernel_args_append(full, u32(i), 4));
  }
  expect(codeOf(rt.kernel_args_append(full, u32(0), 4))).toBe(107000);
  expect(rt.kernel_args_finalize(full)).toBe(107000); // 128 are too many for this one
});

test("loading: every refusal has its code", () => {
  covers("rt.binary_get_global", "rt.register_cpu_func");
  expect(codeOf(rt.binary_load_from_file("/nowhere/kernel.wasm"))).toBe(107009);
  expect(codeOf(rt.binary_load_from_data(Buffer.from("no module"), 9))).toBe(107000);
  expect(acl.get_recent_err_msg()).toMatch(/no WebAssembly module/);
  const bytes = wasm();
  expect(codeOf(rt.binary_load_from_data(bytes, 0))).toBe(107000);
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length + 1))).toBe(107000);
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length, [{ type: 1, value: 1 }]))).toBe(0);
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length, [{ type: 4, value: 1 }]))).toBe(107000);
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length, [{ type: 3, value: 1 }]))).toBe(207000);
  expect(codeOf(rt.binary_get_function(binary, "EasyOp"))).toBe(507027);
  expect(codeOf(rt.binary_get_function(binary, "Answer"))).toBe(107044);
  expect(codeOf(rt.binary_get_global(binary, "x"))).toBe(107042);
  expect(codeOf(rt.register_cpu_func(binary, "x", "y"))).toBe(207000);
  ok(rt.binary_unload(binary));
  expect(rt.binary_unload(binary)).toBe(107017);
  finish();
  start({ driver: "inline" });
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length))).toBe(107002); // no context
  ok(rt.set_device(0));
  expect(codeOf(rt.binary_load_from_data(bytes, bytes.length))).toBe(207000);
});

test("a Hello World per block, to stdout when the stream is synchronized", () => {
  const lines: string[] = [];
  const write = jest.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  try {
    const hello = fn("PrintHello");
    const blocks = ok(rt.get_stream_res_limit(stream, 1));
    ok(rt.launch_kernel(hello, blocks, 0, 0, stream));
    ok(rt.synchronize_stream(stream));
    expect(lines.sort()).toEqual(Array.from({ length: blocks }, (_, block) => `Hello World ${block}\n`).sort());
  } finally {
    write.mockRestore();
  }
});
