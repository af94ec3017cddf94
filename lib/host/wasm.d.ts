/** The part of WebAssembly's JavaScript interface that npurt uses; @types/node 20 does not declare it. Never emitted. */
declare namespace WebAssembly {
  class Memory {
    constructor(descriptor: { initial: number; maximum: number; shared?: boolean });
    readonly buffer: SharedArrayBuffer;
  }
  class Module {
    constructor(bytes: NodeJS.ArrayBufferView);
    static exports(module: Module): { name: string; kind: string }[];
    static imports(module: Module): { module: string; name: string; kind: string }[];
  }
  class Instance {
    constructor(module: Module, imports?: Record<string, Record<string, unknown>>);
    readonly exports: Record<string, unknown>;
  }
  class RuntimeError extends Error {}
  class CompileError extends Error {}
  function validate(bytes: NodeJS.ArrayBufferView): boolean;
}
/** Of ES2024: Node has it since 16, the library of our target does not. */
interface Atomics {
  waitAsync(
    array: Int32Array,
    index: number,
    value: number,
    timeoutMs?: number,
  ): { readonly async: false; readonly value: "not-equal" | "timed-out" } | { readonly async: true; readonly value: Promise<"ok" | "timed-out"> };
}
