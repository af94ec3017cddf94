/**
 * What runs a user's kernels on a core: the `kernel` import of the core module (asm/kernels/user.ts), as text for the body of a worker.
 * It is text because a function whose source is taken at run time does not survive every bundler. Only workers run kernels: they can be ended.
 */
import {
  ArgumentKind,
  Binary,
  Launch,
  Print,
  PRINT_MESSAGE_SLOTS,
  PRINT_MORE,
  PRINT_SLOTS,
  PRINT_TEXT_BYTES,
  PrintRing,
  STACK_BYTES,
} from "../../asm/abi/kernel";
import { Header, Layout } from "./layout";

/** First value of an address's upper half, by what it names: see lib/runtime/address.ts. */
const DEVICE_TAG = 16;
const HOST_TAG = 2 ** 12;

/**
 * `userKernels(memory)` is a function (launch, block, poison, stack). An instance is made when a core first meets a binary, and forgotten when the
 * binary is unloaded. Whatever goes wrong in here is thrown as a trap, so that it becomes a fault of the launch and never the end of the worker.
 */
export const USER_KERNELS = `
function userKernels(memory) {
  const words = new Uint32Array(memory.buffer), bytes = new Uint8Array(memory.buffer), view = new DataView(memory.buffer);
  const loaded = new Map(), at = (address, field) => words[(address + field) >>> 2];
  const fail = (why) => { throw new WebAssembly.RuntimeError(why); };
  let launch = 0, block = 0, poison = 0, scratch = 0;
  const print = (text, length) => {
    text >>>= 0;
    length >>>= 0;
    if (text + length > bytes.length) fail("memory access out of bounds: print");
    const ring = words[${(Layout.HEADER + Header.PRINT) >> 2}], size = Math.min(length, ${PRINT_MESSAGE_SLOTS * PRINT_TEXT_BYTES});
    if (ring === 0) return;
    const slots = Math.max(1, Math.ceil(size / ${PRINT_TEXT_BYTES})), first = Atomics.add(words, (ring + ${PrintRing.NEXT}) >>> 2, slots);
    const place = (i) => ring + ${PrintRing.RECORDS} + ((first + i) & ${PRINT_SLOTS - 1}) * ${Print.SIZE};
    for (let i = slots - 1; i >= 0; i--) {
      const record = place(i), from = text + i * ${PRINT_TEXT_BYTES};
      bytes.copyWithin(record + ${Print.TEXT}, from, Math.min(from + ${PRINT_TEXT_BYTES}, text + size));
      words[(record + ${Print.BINARY}) >>> 2] = at(at(launch, ${Launch.BINARY}), ${Binary.ID});
      words[(record + ${Print.BLOCK}) >>> 2] = block;
      words[(record + ${Print.BYTES}) >>> 2] = i === 0 ? size : ${PRINT_MORE};
      Atomics.store(words, (record + ${Print.READY}) >>> 2, first + i + 1);
    }
  };
  const calls = {
    memory, print,
    block_index: () => block,
    block_count: () => at(launch, ${Launch.BLOCKS}),
    poison_address: () => poison,
    scratch_address: () => scratch,
    poll: () => { if (Atomics.load(words, poison >>> 2) !== 0) fail("unreachable: stopped at a poll"); },
    abort: () => fail("unreachable: abort"),
  };
  const load = (binary) => {
    for (const [id, { home }] of loaded) if (at(home, ${Binary.ID}) !== id) loaded.delete(id);
    const start = at(binary, ${Binary.MODULE}), stack = new WebAssembly.Global({ value: "i32", mutable: true }, 0);
    // slice copies out of shared memory, which WebAssembly.Module refuses on some versions; V8 finds the compiled code of equal bytes.
    const module = new WebAssembly.Module(bytes.slice(start, start + at(binary, ${Binary.MODULE_BYTES})));
    const env = {
      ...calls,
      __stack_pointer: stack,
      __memory_base: new WebAssembly.Global({ value: "i32" }, at(binary, ${Binary.DATA}) | 0),
      __table_base: new WebAssembly.Global({ value: "i32" }, 0),
      __indirect_function_table: new WebAssembly.Table({ element: "anyfunc", initial: at(binary, ${Binary.TABLE}) }),
    };
    const exports = new WebAssembly.Instance(module, { env }).exports;
    const entry = { home: binary, stack, functions: WebAssembly.Module.exports(module).map(({ name }) => exports[name]) };
    loaded.set(at(binary, ${Binary.ID}), entry);
    return entry;
  };
  const device = words[${(Layout.HEADER + Header.DEVICE) >> 2}];
  const argument = (kind, place) => {
    switch (kind) {
      case ${ArgumentKind.I64}: return view.getBigInt64(place, true);
      case ${ArgumentKind.F32}: return view.getFloat32(place, true);
      case ${ArgumentKind.F64}: return view.getFloat64(place, true);
      case ${ArgumentKind.PLACED}: return launch + view.getUint32(place, true);
      case ${ArgumentKind.POINTER}: {
        const low = view.getUint32(place, true), tag = view.getUint32(place + 4, true);
        if (tag === 0 || tag === ${DEVICE_TAG} + device || tag === ${HOST_TAG} + device) return low;
        return fail("memory access out of bounds: an argument is no address of this device");
      }
      default: return view.getUint32(place, true);
    }
  };
  return (launchAt, blockIndex, poisonAt, stackEnd) => {
    launch = launchAt >>> 0;
    block = blockIndex >>> 0;
    poison = poisonAt >>> 0;
    scratch = stackEnd - ${STACK_BYTES};
    try {
      const binary = at(launch, ${Launch.BINARY}), count = at(launch, ${Launch.COUNT});
      const { stack, functions } = loaded.get(at(binary, ${Binary.ID})) ?? load(binary);
      const slots = at(launch, ${Launch.ARGUMENTS}) || launch + ${Launch.SIZE} + ((count + 7) & ~7), args = [];
      for (let i = 0; i < count; i++) args.push(argument(bytes[launch + ${Launch.SIZE} + i], slots + 8 * i));
      stack.value = stackEnd; // a trap leaves it where it was
      functions[at(launch, ${Launch.FUNCTION})](...args);
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError || (error instanceof RangeError && /call stack/.test(error.message))) throw error;
      fail("kernel: " + error);
    }
  };
}`;

/** The import for instances that run on a host thread: those never get a kernel (RUN_UNBOUNDED); a trap is what happens if they do. */
export function noUserKernels(): never {
  throw new WebAssembly.RuntimeError("unreachable: a user's kernel on a host thread");
}
