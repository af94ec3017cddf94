/** What can be loaded as a kernel binary, what is refused and why, and how functions are found. */
import fs from "node:fs";
import path from "node:path";
import { type AclError, Device, Kernel } from "npurt";
import { compileText, helperKernels, helperKernelsInC } from "../../acl/kernels/build";
import * as w from "./wasm";

let device: Device;
beforeAll(async () => {
  device = await Device.open({ cores: 1, memoryBytes: 32 * 2 ** 20 });
});
afterAll(() => device.close());

const refusal = (work: Promise<unknown>): Promise<AclError> =>
  work.then(
    () => {
      throw new Error("it was accepted");
    },
    (error: AclError) => error,
  );

const GLOBALS = [w.importGlobal("__memory_base", w.I32, 0)];
const based = (sizeBytes: number, data: readonly number[]): w.Parts => ({
  custom: w.dylink(sizeBytes, 2),
  imports: [w.importMemory(), ...GLOBALS],
  data: [data],
});

const REFUSED: readonly (readonly [string, w.Parts | Uint8Array, RegExp])[] = [
  ["text", Buffer.from("(module)"), /no WebAssembly module/],
  ["nothing", new Uint8Array(0), /no WebAssembly module/],
  ["a memory of its own", { imports: [], memories: [[0, 1]] }, /memory of its own/],
  ["no memory at all", { imports: [] }, /imports no memory/],
  ["a 64-bit memory", { imports: [w.importMemory("memory", [4, 1])] }, /64-bit/],
  ["another memory", { imports: [w.importMemory("heap")] }, /memory "heap"/],
  ["an unknown function", { imports: [w.importMemory(), w.importFunction("malloc", 0)] }, /function "malloc".*only block_index/],
  [
    "a known function of another type",
    { imports: [w.importMemory(), w.importFunction("print", 0)] },
    /function "print" \(\) ->; it is \(i32 i32\) ->/,
  ],
  [
    "another module's function",
    { imports: [w.importMemory(), w.importFunction("fd_write", 0, "wasi_snapshot_preview1")] },
    /"wasi_snapshot_preview1"/,
  ],
  ["a constant stack pointer", { imports: [w.importMemory(), w.importGlobal("__stack_pointer", w.I32, 0)] }, /global "__stack_pointer"/],
  ["another table", { imports: [w.importMemory(), w.importTable("table")] }, /table "table"/],
  ["a start function with work", { start: 0 }, /start function/],
  ["data at a fixed address", { data: [w.activeData(w.constant(32), [1, 2, 3])] }, /fixed address 32, which belongs to the device/],
  ["passive data", { data: [w.passiveData([1])] }, /passive data/],
  ["data without a header", { imports: [w.importMemory(), ...GLOBALS], data: [w.activeData(w.globalGet(0), [1, 2])] }, /header says 0 bytes/],
  ["data past its header", based(4, w.activeData(w.globalGet(0), [1, 2, 3, 4, 5])), /ends at 5 .* says 4 bytes/],
  ["data with much alignment", { custom: w.dylink(4, 7) }, /alignment of 128/],
  ["a side module that needs another", { custom: w.needs("libm.so") }, /library "libm.so"/],
  ["constructors with work", { exports: [w.exportFunction("__wasm_call_ctors", 0)] }, /__wasm_call_ctors has work/],
  ["code that is no code", { functions: [[0, [0xff]]] }, /damaged/],
  ["a function of a missing type", { types: [], exports: [] }, /damaged/],
];

test.each(REFUSED)("refused with 107000: %s", async (_name, parts, why) => {
  const before = device.info().usedBytes;
  const error = await refusal(Kernel.load(device, parts instanceof Uint8Array ? parts : w.wasm(parts)));
  expect({ code: error.code, message: error.message }).toEqual({ code: 107000, message: expect.stringMatching(why) });
  expect(device.info().usedBytes).toBe(before);
});

test.each([
  ["plain", {}],
  ["an empty start function", { functions: [[0, []]], start: 0 }],
  ["data that follows its base", based(8, w.activeData(w.globalGet(0), [1, 2, 3]))],
  [
    "the function table of a side module",
    { imports: [w.importMemory(), w.importTable("__indirect_function_table"), w.importGlobal("__table_base", w.I32, 0)] },
  ],
] as readonly (readonly [string, w.Parts])[])("loaded and run: %s", async (_name, parts) => {
  const kernel = await Kernel.load(device, w.wasm(parts));
  const stream = device.createStream();
  stream.launchKernel(kernel.function("Run"), { blocks: 3 });
  await stream.synchronize();
  await kernel.dispose();
  await stream.destroy();
});

test("a module cut short at any byte, or with one byte changed, is refused or loaded: never a crash", async () => {
  const whole = fs.readFileSync(helperKernelsInC());
  let refused = 0;
  const load = (bytes: Uint8Array): Promise<void> =>
    Kernel.load(device, bytes).then(
      (kernel) => kernel.dispose(),
      (error: AclError) => {
        expect(error.code).toBe(107000);
        refused++;
      },
    );
  await load(whole); // the first binary that prints brings the ring along
  const before = device.info().usedBytes;
  for (let length = 0; length < whole.length; length += 3) {
    await load(whole.subarray(0, length));
  }
  expect(refused).toBeGreaterThan(whole.length / 3 - 20); // a cut between two sections may leave a whole module
  refused = 0;
  for (let at = 8; at < whole.length; at += 7) {
    const bytes = Uint8Array.from(whole);
    bytes[at] = bytes[at]! ^ 0x55;
    await load(bytes);
  }
  expect(refused).toBeGreaterThan(20);
  expect(device.info().usedBytes).toBe(before);
});

test("AssemblyScript with a string in it is told what to leave out", async () => {
  const imports = '@external("env", "print") declare function print(at: usize, size: u32): void;';
  const text = await refusal(Kernel.load(device, compileText(`${imports} export function Say(): void { print(changetype<usize>("hello"), 10); }`)));
  expect(text.message).toMatch(/static data at the fixed address .* AssemblyScript: no strings/);
});

test("a file that is not there is 107009; a wrong argument says what to pass", async () => {
  const missing = path.join(__dirname, "missing.wasm");
  await expect(Kernel.load(device, missing)).rejects.toMatchObject({ code: 107009, message: expect.stringContaining(missing) });
  await expect(Kernel.load(device, 5 as never)).rejects.toMatchObject({
    code: 107000,
    message: expect.stringContaining("a path, a file URL, or the bytes"),
  });
  await expect(Kernel.load(device, w.wasm(), {}, { prnt: 1 } as never)).rejects.toMatchObject({
    code: 107000,
    message: expect.stringContaining('"print"'),
  });
});

test("loads from a path, a file URL, a typed array and an ArrayBuffer alike", async () => {
  const file = helperKernels();
  const bytes = fs.readFileSync(file);
  const names: string[][] = [];
  for (const source of [file, new URL(`file://${file}`), bytes, Uint8Array.from(bytes).buffer]) {
    const kernel = await Kernel.load(device, source);
    names.push(kernel.names);
    await kernel.dispose();
  }
  expect(names[0]).toContain("EasyOP");
  expect(new Set(names.map((each) => each.join())).size).toBe(1);
});

test("functions: unknown names, and functions that cannot be launched", async () => {
  const many = new Array<number>(129).fill(w.I32);
  const parts: w.Parts = {
    types: [w.type([]), w.type([], [w.I32]), w.type([w.V128]), w.type(many), w.type([w.I32, w.I64])],
    functions: [
      [0, [w.NOP]],
      [1, [0x41, 1]],
      [2, [w.NOP]],
      [3, [w.NOP]],
      [4, [w.NOP]],
    ],
    exports: ["Run", "Answer", "Wide", "Many", "Two"].map((name, i) => w.exportFunction(name, i)),
  };
  const kernel = await Kernel.load(device, w.wasm(parts));
  const codeOf = (name: string): unknown => {
    try {
      return kernel.function(name).params;
    } catch (error) {
      return [(error as AclError).code, (error as AclError).message];
    }
  };
  expect(codeOf("Two")).toEqual(["i32", "i64"]);
  expect(codeOf("Rum")).toEqual([507027, expect.stringContaining('did you mean "Run"?')]);
  expect(codeOf("Answer")).toEqual([107044, expect.stringContaining("returns a value")]);
  expect(codeOf("Wide")).toEqual([107044, expect.stringContaining("neither a number nor an address")]);
  expect(codeOf("Many")).toEqual([107044, expect.stringContaining("129 parameters, and 128 are the most")]);
  await kernel.dispose();
  expect(codeOf("Run")).toEqual([107017, expect.stringContaining("unloaded")]);
  await kernel.dispose();
});

test("a signature has to fit the function; a refused one leaves nothing behind", async () => {
  const before = device.info().usedBytes;
  const file = helperKernels();
  const load = (params: readonly string[], name = "WriteDo"): Promise<Kernel> => Kernel.load(device, file, { [name]: params as never });
  await expect(load(["ptr"])).rejects.toMatchObject({ code: 107000, message: expect.stringContaining("(ptr), and the function takes (i32, i32)") });
  await expect(load(["ptr", "f32"])).rejects.toMatchObject({ code: 107000 });
  await expect(load(["ptr", "int"])).rejects.toMatchObject({ code: 107000, message: expect.stringContaining("pass one of ptr, i32") });
  await expect(load([], "WriteDone")).rejects.toMatchObject({ code: 507027 });
  expect(device.info().usedBytes).toBe(before);
});

test.each(["inline", "sim"] as const)("refused with 207000 on the %s driver, where nothing could stop it", async (driver) => {
  const other = await Device.open({ driver, memoryBytes: 16 * 2 ** 20 });
  await expect(Kernel.load(other, w.wasm())).rejects.toMatchObject({ code: 207000, message: expect.stringContaining('driver "threads"') });
  await other.close();
});
