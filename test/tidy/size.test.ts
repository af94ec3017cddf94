/** Files and functions that a reader can hold in the head. An exception needs its reason here. */
import ts from "typescript";
import { filesIn, lineOf, parse, read, walk } from "./sources";

const FILE_LINES = 400;
const FUNCTION_LINES = 70;
const KERNEL_LINES = 120;

/** Longer files, and why they are one file. */
const LONG_FILES: Readonly<Record<string, string>> = {};
/** Longer functions ("file: name"), and why they are one function. */
const LONG_FUNCTIONS: Readonly<Record<string, string>> = {
  "test/conformance/programs.ts: handMade": "writes one image from its first byte to its last; parts would need the offsets of all others",
};

const typescript = ["lib", "asm", "test", "bench", "examples"].flatMap((folder) => filesIn(folder, ".ts", ".mts", ".cts", ".mjs", ".cjs", ".js"));
const native = filesIn("native", ".cc", ".h");

const linesOf = (text: string): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0);

test(`no file is longer than ${FILE_LINES} lines`, () => {
  const long = [...typescript, ...native].filter((file) => linesOf(read(file)) > FILE_LINES).map((file) => `${file}: ${linesOf(read(file))} lines`);
  expect(long.filter((text) => LONG_FILES[text.split(":")[0] ?? ""] === undefined)).toEqual([]);
});

function nameOf(node: ts.FunctionLikeDeclaration): string {
  if (node.name !== undefined) return node.name.getText();
  if (ts.isConstructorDeclaration(node)) return "constructor";
  const parent = node.parent;
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent.name.getText() : "(anonymous)";
}

/** A function of a test file that holds tests is a list of them, not a function to be read as one. */
function isSuite(file: string, node: ts.Node): boolean {
  let holdsTests = false;
  if (file.endsWith(".test.ts")) {
    ts.forEachChild(node, (child) =>
      walk(child, (inner) => {
        holdsTests ||= ts.isCallExpression(inner) && /^(describe|test|it)\b/.test(inner.expression.getText());
      }),
    );
  }
  return holdsTests;
}

test(`no function is longer than ${FUNCTION_LINES} lines (${KERNEL_LINES} in asm/kernels and asm/micro)`, () => {
  const long: string[] = [];
  for (const file of typescript) {
    const limit = /^asm\/(kernels|micro)\//.test(file) ? KERNEL_LINES : FUNCTION_LINES;
    const source = parse(file);
    walk(source, (node) => {
      if (!ts.isFunctionLike(node) || !("body" in node) || node.body === undefined) return;
      const first = lineOf(node);
      const lines = source.getLineAndCharacterOfPosition(node.end).line + 2 - first;
      const name = nameOf(node as ts.FunctionLikeDeclaration);
      if (lines > limit && LONG_FUNCTIONS[`${file}: ${name}`] === undefined && !isSuite(file, node))
        long.push(`${file}:${first} ${name}: ${lines} lines`);
    });
  }
  expect(long).toEqual([]);
});

test(`no C++ function is longer than ${FUNCTION_LINES} lines`, () => {
  const long: string[] = [];
  for (const file of native) {
    let first = 0;
    read(file)
      .split("\n")
      .forEach((line, index) => {
        // Our functions start and end in the first column; namespaces and classes are no functions.
        if (/^\S.*\{$/.test(line) && !/^(namespace|class|struct|enum)\b/.test(line)) first = index;
        if (line === "}" && index + 1 - first > FUNCTION_LINES) long.push(`${file}:${first + 1}`);
      });
  }
  expect(long).toEqual([]);
});
