/** What a user's compiler makes of our types: strict, libraries checked, from CommonJS and from ES modules. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import ts from "typescript";

const root = path.join(__dirname, "../..");
/** Types of every entry in package.json. */
const ENTRIES = ["index", "ort/ort", "acl/acl", "acl/rt", "diag/timeline"].map((name) => path.join(root, `dist/lib/${name}.d.ts`));

/** Declaration files that a consumer of the package loads, from its types entry down. */
function closure(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const source = fs.readFileSync(file, "utf8");
  for (const [, specifier] of source.matchAll(/(?:from|import)\s*\(?"(\.[^"]+)"/g)) {
    const target = path.join(path.dirname(file), specifier as string).replace(/\.js$/, "");
    const found = [`${target}.d.ts`, `${target}/index.d.ts`].find((candidate) => fs.existsSync(candidate));
    if (found === undefined) throw new Error(`${file} imports ${specifier}, which has no types`);
    closure(found, seen);
  }
  return seen;
}

test("public types never reach the device's layouts", () => {
  const files = ENTRIES.flatMap((entry) => [...closure(entry)]);
  const inner = files.map((file) => path.relative(path.join(root, "dist"), file)).filter((file) => /^(asm|lib.host)\b/.test(file));
  expect(inner).toEqual([]);
});

test("public types hold no any", () => {
  const found: string[] = [];
  for (const file of closure(ENTRIES[0]!)) {
    const source = ts.createSourceFile(file, fs.readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true);
    const visit = (node: ts.Node): void => {
      if (node.kind === ts.SyntaxKind.AnyKeyword) found.push(`${path.relative(root, file)}: ${node.parent.getText().slice(0, 80)}`);
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  expect(found).toEqual([]);
});

test.each([
  ["node16", "as CommonJS and as ES module", /\.[mc]ts$/, { module: ts.ModuleKind.Node16 }],
  ["bundler", "as ES module", /\.mts$/, { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }],
])("a strict consumer of every entry compiles (%s, %s)", (_resolution, _form, files, resolution) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-types-"));
  fs.cpSync(path.join(__dirname, "consumer"), folder, { recursive: true });
  fs.mkdirSync(path.join(folder, "node_modules/@types"), { recursive: true });
  fs.symlinkSync(root, path.join(folder, "node_modules/npurt"));
  fs.symlinkSync(path.join(root, "node_modules/@types/node"), path.join(folder, "node_modules/@types/node"));
  const program = ts.createProgram(
    fs
      .readdirSync(folder)
      .filter((name) => files.test(name))
      .map((name) => path.join(folder, name)),
    {
      ...resolution,
      target: ts.ScriptTarget.ES2022,
      lib: ["lib.es2022.d.ts"], // a Node program: no DOM that would lend its types
      strict: true,
      isolatedModules: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      types: ["node"],
      typeRoots: [path.join(folder, "node_modules/@types")],
    },
  );
  const messages = ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const where = diagnostic.file === undefined ? "" : path.basename(diagnostic.file.fileName);
    return `${where}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n")}`;
  });
  expect(messages).toEqual([]);
});
