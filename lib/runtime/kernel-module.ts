/**
 * Reads a kernel binary (WebAssembly core spec, 5.5), refuses what cannot run over a device's memory, and relinks the rest: the memory import becomes
 * the device's shared one, and static data leaves the module, since every core instantiates it while the data is to be written once.
 * Whether the code itself is valid is for the engine to say.
 */
import { AclError } from "../errors/acl-error";
import { type DataPart, type FunctionType, type KernelExport, type KernelModule, symbolTable, type ValueType } from "./kernel-parts";
import { Reader, u32 } from "./wasm-reader";

const VALUE_TYPES: Readonly<Record<number, ValueType>> = { 127: "i32", 126: "i64", 125: "f32", 124: "f64" };

enum Section {
  CUSTOM,
  TYPE,
  IMPORT,
  FUNCTION,
  TABLE,
  MEMORY,
  GLOBAL,
  EXPORT,
  START,
  ELEMENT,
  CODE,
  DATA,
  DATA_COUNT,
}
enum Kind {
  FUNCTION,
  TABLE,
  MEMORY,
  GLOBAL,
  TAG,
}
const SHARED_WITH_MAXIMUM = 3;
const MAX_PAGES = 65536;
/** Functions that the core provides, with what they take and give. */
const CALLS: Readonly<Record<string, string>> = {
  block_index: "() -> i32",
  block_count: "() -> i32",
  poll: "() ->",
  poison_address: "() -> i32",
  scratch_address: "() -> i32",
  print: "(i32 i32) ->",
  abort: "(i32 i32 i32 i32) ->",
};
/** Globals that the core provides, and whether they may change. */
const GLOBALS: Readonly<Record<string, boolean>> = { __memory_base: false, __table_base: false, __stack_pointer: true };
/** Functions that a side module exports for its loader. With an empty body there is nothing to do. */
const LOADER_EXPORTS = ["__wasm_call_ctors", "__wasm_apply_data_relocs", "_initialize"];
const SIDE_MODULE_INFO = 1;
const SIDE_MODULE_NEEDED = 2;

const spell = ({ params, results }: FunctionType): string => `(${params.join(" ")}) -> ${results.join(" ")}`.trim();

class Parser {
  readonly #what: string;
  readonly #bytes: Uint8Array;
  readonly #types: FunctionType[] = [];
  /** Type index per function, imported ones first. */
  readonly #functions: number[] = [];
  #importedFunctions = 0;
  #memoryBase = -1;
  #globals = 0;
  #tableElements = 0;
  #hasMemory = false;
  #prints = false;
  #sideModule: { readonly sizeBytes: number } | undefined;
  readonly #exports: { readonly name: string; readonly index: number; readonly target: number }[] = [];
  readonly #symbols: { readonly name: string; readonly target: number }[] = [];
  /** Value of each constant i32 global: of an exported variable, its place among the static data. */
  readonly #constants = new Map<number, number>();
  /** Bodies with neither locals nor instructions. */
  readonly #empty = new Set<number>();
  readonly #codeBytes = new Map<number, number>();
  readonly #data: DataPart[] = [];
  #start = -1;

  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  #refuse(why: string): AclError {
    return new AclError(107000, `${this.#what} cannot be loaded as a kernel binary: ${why}`);
  }

  parse(): KernelModule {
    const bytes = this.#bytes;
    if (bytes.length < 8 || Buffer.from(bytes.buffer, bytes.byteOffset, 8).toString("latin1") !== "\0asm\x01\0\0\0") {
      throw this.#refuse("it is no WebAssembly module of version 1");
    }
    const kept: Uint8Array[] = [bytes.subarray(0, 8)];
    const reader = new Reader(bytes, 8);
    while (!reader.done) {
      const start = reader.at;
      const id = reader.byte();
      const section = reader.sub(reader.u32());
      const replaced = this.#section(id, section);
      if (replaced === undefined) {
        kept.push(bytes.subarray(start, reader.at));
      } else if (replaced.length > 0) {
        kept.push(Uint8Array.of(id), u32(replaced.length), replaced);
      }
    }
    return this.#conclude(Buffer.concat(kept));
  }

  /** Contents to put in place of the section's; empty: the section goes; undefined: it stays. */
  #section(id: number, section: Reader): Uint8Array | undefined {
    switch (id) {
      case Section.CUSTOM:
        this.#custom(section);
        return undefined;
      case Section.TYPE:
        section.list(() => this.#types.push(this.#type(section)));
        return undefined;
      case Section.IMPORT:
        return this.#imports(section);
      case Section.FUNCTION:
        section.list(() => this.#functions.push(section.u32()));
        return undefined;
      case Section.MEMORY:
        if (section.u32() > 0) {
          throw this.#refuse('it has a memory of its own; import the device\'s as "env" "memory" (asc --importMemory, wasm-ld --import-memory)');
        }
        return undefined;
      case Section.GLOBAL:
        this.#globalList(section);
        return undefined;
      case Section.EXPORT:
        this.#exportList(section);
        return undefined;
      case Section.START:
        this.#start = section.u32();
        return new Uint8Array(0);
      case Section.CODE:
        this.#bodies(section);
        return undefined;
      case Section.DATA:
        this.#segments(section);
        return new Uint8Array(0);
      case Section.DATA_COUNT:
        return new Uint8Array(0);
      default:
        return undefined;
    }
  }

  #type(section: Reader): FunctionType {
    const form = section.byte();
    if (form !== 0x60) {
      throw this.#refuse(`it uses type form 0x${form.toString(16)}; kernels have plain functions`);
    }
    const values = (): ValueType[] => {
      const found: ValueType[] = [];
      section.list(() => found.push(VALUE_TYPES[section.byte()] ?? "other"));
      return found;
    };
    return { params: values(), results: values() };
  }

  /** The import section again, with the memory that the device has. */
  #imports(section: Reader): Uint8Array {
    const parts: Uint8Array[] = [];
    let count = 0;
    section.list(() => {
      const start = section.at;
      const module = section.name();
      const name = section.name();
      const kind = section.byte();
      const head = section.bytes.subarray(start, section.at);
      if (module !== "env") {
        throw this.#refuse(`it imports "${name}" from "${module}"; only the imports of "env" in docs/kernels.md exist`);
      }
      this.#import(section, name, kind);
      count++;
      const isMemory = kind === Kind.MEMORY;
      parts.push(isMemory ? Buffer.concat([head, Uint8Array.of(SHARED_WITH_MAXIMUM, 0), u32(MAX_PAGES)]) : section.bytes.subarray(start, section.at));
    });
    return Buffer.concat([u32(count), ...parts]);
  }

  #import(section: Reader, name: string, kind: number): void {
    switch (kind) {
      case Kind.FUNCTION: {
        const type = section.u32();
        const found = this.#types[type];
        if (CALLS[name] === undefined || found === undefined || spell(found) !== CALLS[name]) {
          const known = CALLS[name] === undefined ? `only ${Object.keys(CALLS).join(", ")} exist` : `it is ${CALLS[name]}`;
          throw this.#refuse(`it imports function "${name}" ${found === undefined ? "" : spell(found)}; ${known}`);
        }
        this.#prints ||= name === "print";
        this.#functions.push(type);
        this.#importedFunctions++;
        return;
      }
      case Kind.TABLE:
        section.byte();
        this.#tableElements = this.#limits(section);
        if (name !== "__indirect_function_table") {
          throw this.#refuse(`it imports table "${name}"; only __indirect_function_table exists`);
        }
        return;
      case Kind.MEMORY:
        this.#limits(section);
        this.#hasMemory = true;
        if (name !== "memory") {
          throw this.#refuse(`it imports memory "${name}"; the device's is called "memory"`);
        }
        return;
      case Kind.GLOBAL: {
        const type = section.byte();
        const mutable = section.byte() === 1;
        if (GLOBALS[name] !== mutable || VALUE_TYPES[type] !== "i32") {
          throw this.#refuse(`it imports global "${name}"; only __memory_base, __table_base (constant i32) and __stack_pointer (mutable i32) exist`);
        }
        if (name === "__memory_base") {
          this.#memoryBase = this.#globals;
        }
        this.#globals++;
        return;
      }
      default:
        throw this.#refuse(`it imports "${name}", which is neither a function nor a memory`);
    }
  }

  #limits(section: Reader): number {
    const flags = section.byte();
    if (flags & 4) {
      throw this.#refuse("it is made for 64-bit memories; devices have 32-bit ones");
    }
    const least = section.u32();
    if (flags & 1) {
      section.u32();
    }
    return least;
  }

  #exportList(section: Reader): void {
    let index = 0;
    section.list(() => {
      const name = section.name();
      const kind = section.byte();
      const target = section.u32();
      if (kind === Kind.FUNCTION) {
        this.#exports.push({ name, index, target });
      } else if (kind === Kind.GLOBAL) {
        this.#symbols.push({ name, target });
      }
      index++;
    });
  }

  /** Looks for `const i32 = number`; at anything else it stops looking, as nothing else is of interest. */
  #globalList(section: Reader): void {
    for (let left = section.u32(); left > 0; left--) {
      const type = section.byte();
      const mutable = section.byte() === 1;
      if (section.byte() !== 0x41) {
        return;
      }
      const value = section.i32();
      if (section.byte() !== 0x0b) {
        return;
      }
      if (!mutable && VALUE_TYPES[type] === "i32") {
        this.#constants.set(this.#globals, value);
      }
      this.#globals++;
    }
  }

  #bodies(section: Reader): void {
    let index = this.#importedFunctions;
    section.list(() => {
      const body = section.sub(section.u32());
      if (body.bytes.length === 2 && body.bytes[0] === 0 && body.bytes[1] === 0x0b) {
        this.#empty.add(index);
      }
      this.#codeBytes.set(index, body.bytes.length);
      index++;
    });
  }

  #segments(section: Reader): void {
    section.list(() => {
      const flags = section.u32();
      if (flags !== 0) {
        throw this.#refuse("it has passive data, which a start function would have to copy; link without --shared-memory");
      }
      const offset = this.#offset(section);
      this.#data.push({ offset, bytes: section.sub(section.u32()).bytes });
    });
  }

  /** Of an active segment: `global.get __memory_base`, alone or plus a constant. */
  #offset(section: Reader): number {
    let offset = 0;
    let based = false;
    for (let op = section.byte(); op !== 0x0b; op = section.byte()) {
      if (op === 0x23 && section.u32() === this.#memoryBase) {
        based = true;
      } else if (op === 0x41) {
        offset += section.i32();
      } else if (op !== 0x6a) {
        throw this.#refuse("its static data lies at an address that it computes; link it as a side module (wasm-ld -shared)");
      }
    }
    if (!based) {
      throw this.#refuse(
        `it has static data at the fixed address ${offset}, which belongs to the device; AssemblyScript: no strings, static arrays, \`new\` or Mathf tables; C: link as a side module (wasm-ld -shared)`,
      );
    }
    return offset;
  }

  #custom(section: Reader): void {
    const name = section.name();
    if (name === "dylink") {
      throw this.#refuse("it is a side module of an old linker; use LLVM 13 or newer");
    }
    if (name !== "dylink.0") {
      return;
    }
    while (!section.done) {
      const id = section.byte();
      const part = section.sub(section.u32());
      if (id === SIDE_MODULE_INFO) {
        const sizeBytes = part.u32();
        const align = part.u32();
        if (align > 6) {
          throw this.#refuse(`its static data wants an alignment of ${2 ** align} bytes; the device gives 64`);
        }
        this.#sideModule = { sizeBytes };
      } else if (id === SIDE_MODULE_NEEDED && part.u32() > 0) {
        throw this.#refuse(`it needs the library "${part.name()}"; link everything into one module`);
      }
    }
  }

  #conclude(bytes: Uint8Array): KernelModule {
    // Linkers write one for side modules that have nothing to start.
    if (this.#start >= 0 && !this.#empty.has(this.#start)) {
      throw this.#refuse("it has a start function, which would run on each core at a time of its own; let a kernel do that work");
    }
    if (!this.#hasMemory) {
      throw this.#refuse('it imports no memory, so it could reach nothing; import "env" "memory"');
    }
    const dataBytes = this.#sideModule?.sizeBytes ?? 0;
    for (const { offset, bytes: part } of this.#data) {
      if (offset < 0 || offset + part.length > dataBytes) {
        throw this.#refuse(
          `its static data ends at ${offset + part.length} and its header says ${dataBytes} bytes; link it as a side module (wasm-ld -shared)`,
        );
      }
    }
    const functions = new Map<string, KernelExport>();
    for (const { name, index, target } of this.#exports) {
      const type = this.#types[this.#functions[target] ?? -1];
      if (type === undefined) {
        throw this.#refuse(`its export "${name}" names no function`);
      }
      if (LOADER_EXPORTS.includes(name)) {
        if (!this.#empty.has(target)) {
          throw this.#refuse(`its ${name} has work to do (constructors, or static data with addresses in it); let a kernel do that work`);
        }
      } else {
        functions.set(name, { name, index, type, codeBytes: this.#codeBytes.get(target) ?? 0 });
      }
    }
    return {
      bytes,
      functions,
      symbols: symbolTable(this.#symbols, this.#constants, dataBytes),
      dataBytes,
      data: this.#data,
      tableElements: this.#tableElements,
      prints: this.#prints,
    };
  }
}

/** @throws AclError 107000 that says why `bytes` cannot be a kernel binary */
export function readKernelModule(bytes: Uint8Array, what: string): KernelModule {
  let found: KernelModule;
  try {
    found = new Parser(bytes, what).parse();
    new WebAssembly.Module(found.bytes as Uint8Array<ArrayBuffer>);
  } catch (error) {
    if (error instanceof AclError) {
      throw error;
    }
    throw new AclError(107000, `${what} cannot be loaded as a kernel binary: it is damaged (${(error as Error).message})`, { cause: error });
  }
  return found;
}
