/** What every release core module must be: no static data (instances share one memory and would overwrite it), functions as its only exports. */
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";
import { parse, walk } from "./sources";

const asm = path.join(__dirname, "../../dist/asm");
const modules = fs.readdirSync(asm).filter((name) => name.endsWith(".wasm") && !name.includes("checked"));

/** Payload ids of the sections of a wasm binary, in order (WebAssembly core spec, 5.5). */
function sectionIds(bytes: Uint8Array): number[] {
  const ids: number[] = [];
  for (let at = 8; at < bytes.length; ) {
    ids.push(bytes[at++]!);
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++]!;
      size += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    at += size;
  }
  return ids;
}

test("a build has at least the base module", () => {
  expect(modules).toContain("core.wasm");
});

describe.each(modules)("%s", (name) => {
  const bytes = fs.readFileSync(path.join(asm, name));
  const module = new WebAssembly.Module(bytes);

  test("has no data section", () => {
    const DATA = 11;
    expect(sectionIds(bytes)).not.toContain(DATA);
    const text = path.join(asm, name.replace(/\.wasm$/, ".wat"));
    if (fs.existsSync(text)) expect(fs.readFileSync(text, "utf8")).not.toMatch(/^\s*\(data\b/m);
  });

  test("exports functions only", () => {
    expect(WebAssembly.Module.exports(module).filter((entry) => entry.kind !== "function")).toEqual([]);
  });

  test("imports its memory and functions of env only", () => {
    for (const entry of WebAssembly.Module.imports(module)) {
      expect(entry.module).toBe("env");
      expect(["memory", "function"]).toContain(entry.kind);
    }
  });
});

test("core.wasm exports what lib/host/core-exports.ts declares, with as many parameters", () => {
  const declared = new Map<string, number>();
  walk(parse("lib/host/core-exports.ts"), (node) => {
    if (ts.isMethodSignature(node) && ts.isInterfaceDeclaration(node.parent) && node.parent.name.text === "CoreExports") {
      declared.set(node.name.getText(), node.parameters.length);
    }
  });
  const imports = { env: { memory: new WebAssembly.Memory({ initial: 200, maximum: 65536, shared: true }), clock: () => 0 } };
  const instance = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(path.join(asm, "core.wasm"))), imports);
  const exported = Object.entries(instance.exports).map(([name, value]) => [name, (value as () => void).length] as const);
  expect(declared.size).toBeGreaterThan(0);
  expect(Object.fromEntries(exported)).toMatchObject(Object.fromEntries(declared));
});
