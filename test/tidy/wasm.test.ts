/** What every release core module must be: no static data (instances share one memory and would overwrite it), functions as its only exports. */
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";
import { parse, walk } from "./sources";

const asm = path.join(__dirname, "../../dist/asm");
const modules = fs.readdirSync(asm).filter((name) => name.endsWith(".wasm") && !name.includes("checked"));

/** Reads a wasm binary section by section (WebAssembly core spec, 5.5): an engine that lacks a feature of the module need not compile it. */
class Reader {
  #at = 8; // past the magic number and the version
  constructor(readonly bytes: Uint8Array) {}

  u32(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.bytes[this.#at++]!;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }
  name(): string {
    const size = this.u32();
    this.#at += size;
    return Buffer.from(this.bytes.subarray(this.#at - size, this.#at)).toString();
  }
  /** Section id -> where its contents start. */
  sections(): Map<number, number> {
    const found = new Map<number, number>();
    while (this.#at < this.bytes.length) {
      const id = this.bytes[this.#at++]!;
      const size = this.u32();
      found.set(id, this.#at);
      this.#at += size;
    }
    return found;
  }
  moveTo(at: number): this {
    this.#at = at;
    return this;
  }
}

const EXPORT = 7;
const DATA = 11;
const FUNCTION = 0;

test("a build has at least the base module", () => {
  expect(modules).toContain("core.wasm");
});

describe.each(modules)("%s", (name) => {
  const bytes = fs.readFileSync(path.join(asm, name));
  const sections = new Reader(bytes).sections();

  test("has no data section", () => {
    expect(sections.has(DATA)).toBe(false);
    const text = path.join(asm, name.replace(/\.wasm$/, ".wat"));
    if (fs.existsSync(text)) expect(fs.readFileSync(text, "utf8")).not.toMatch(/^\s*\(data\b/m);
  });

  test("exports functions only", () => {
    const reader = new Reader(bytes).moveTo(sections.get(EXPORT)!);
    const count = reader.u32();
    expect(count).toBeGreaterThan(0);
    const entries = Array.from({ length: count }, () => ({ name: reader.name(), kind: reader.u32(), index: reader.u32() }));
    expect(entries.filter((entry) => entry.kind !== FUNCTION)).toEqual([]);
  });
});

test("core.wasm exports what lib/host/core-exports.ts declares, with as many parameters", () => {
  const declared = new Map<string, number>();
  walk(parse("lib/host/core-exports.ts"), (node) => {
    if (ts.isMethodSignature(node) && ts.isInterfaceDeclaration(node.parent) && node.parent.name.text === "CoreExports") {
      declared.set(node.name.getText(), node.parameters.length);
    }
  });
  const module = new WebAssembly.Module(fs.readFileSync(path.join(asm, "core.wasm")));
  const functions = WebAssembly.Module.imports(module).filter((each) => each.module === "micro");
  const micro = Object.fromEntries(functions.map((each) => [each.name, () => 0]));
  const imports = {
    micro,
    env: { memory: new WebAssembly.Memory({ initial: 200, maximum: 65536, shared: true }), clock: () => 0, kernel: () => {} },
  };
  const instance = new WebAssembly.Instance(module, imports);
  const exported = Object.entries(instance.exports).map(([name, value]) => [name, (value as () => void).length] as const);
  expect(declared.size).toBeGreaterThan(0);
  expect(Object.fromEntries(exported)).toMatchObject(Object.fromEntries(declared));
});
