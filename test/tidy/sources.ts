/** The tree as the tidy tests see it: our own source files, parsed once. */
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";

export const root = path.join(__dirname, "../..");

/** Made by tools or installed: not ours to keep tidy. */
const SKIPPED = new Set(["node_modules", "dist", "build", "prebuilds", "coverage", ".git", "generated", "peers"]);

/** Paths from the root, with "/", of the files below `folder` whose names end so. */
export function filesIn(folder: string, ...endings: string[]): string[] {
  const absolute = path.join(root, folder);
  if (!fs.existsSync(absolute)) return [];
  return fs.readdirSync(absolute, { withFileTypes: true }).flatMap((entry) => {
    const name = path.posix.join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : filesIn(name, ...endings);
    return endings.length === 0 || endings.some((ending) => name.endsWith(ending)) ? [name] : [];
  });
}

export function read(file: string): string {
  return fs.readFileSync(path.join(root, file), "utf8");
}

const parsed = new Map<string, ts.SourceFile>();
export function parse(file: string): ts.SourceFile {
  let source = parsed.get(file);
  if (source === undefined) {
    source = ts.createSourceFile(file, read(file), ts.ScriptTarget.ES2022, true);
    parsed.set(file, source);
  }
  return source;
}

/** Calls `visit` for each node of a file, parents first. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

export function lineOf(node: ts.Node): number {
  const source = node.getSourceFile();
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}

export interface Import {
  /** As written, or resolved to a path from the root (without ending) where it is relative. */
  readonly target: string;
  readonly line: number;
  /** `import()`: loaded when it is needed, not with the module. */
  readonly lazy: boolean;
}

/** All imports of a file: declarations, re-exports, `require`, `import()` and `import("...")` types. */
export function importsOf(file: string): Import[] {
  const found: Import[] = [];
  const add = (specifier: ts.Node | undefined, at: ts.Node, lazy: boolean): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const text = specifier.text;
    const target = text.startsWith(".") ? path.posix.join(path.posix.dirname(file), text) : text;
    found.push({ target, line: lineOf(at), lazy });
  };
  walk(parse(file), (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) add(node.moduleSpecifier, node, false);
    else if (ts.isExternalModuleReference(node)) add(node.expression, node, false);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, node, true);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0], node, true);
    else if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === "require") add(node.arguments[0], node, true);
  });
  return found;
}
