/** One concept, one word. A declared name that holds a banned word says a known thing in a second way. */
import ts from "typescript";
import { filesIn, lineOf, parse, read, walk } from "./sources";

/** Banned word -> what the house calls it. */
const WORDS: Readonly<Record<string, string>> = {
  job: "task",
  queue: "stream (of tasks) or ring (its memory)",
  workgroup: "region or tile",
  threadblock: "tile",
  wavefront: "strip",
  semaphore: "event or fence",
  session: "executor",
  opkernel: "instruction",
  subdevice: "core",
};

/** Foreign words at the place where a foreign thing is meant: "file: name". */
const FOREIGN = new Set<string>([
  // onnxruntime-common's names.
  ...["InferenceSession", "InferenceSessionFactory", "SessionOptions"].map((name) => `lib/ort/ort.ts: ${name}`),
  "lib/ort/inference.ts: HostSession",
  "lib/ort/inference.ts: SessionOptions",
]);

/** "ringTail" and "RING_TAIL" -> ring, tail; a plural counts as its singular. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^A-Za-z0-9]+/)
    .flatMap((word) => word.split(" "))
    .map((word) => word.toLowerCase().replace(/s$/, ""));
}

function declaredName(node: ts.Node): ts.Node | undefined {
  const named =
    ts.isVariableDeclaration(node) ||
    ts.isParameter(node) ||
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isPropertySignature(node) ||
    ts.isMethodSignature(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isEnumDeclaration(node) ||
    ts.isEnumMember(node) ||
    ts.isModuleDeclaration(node);
  return named ? (node as ts.NamedDeclaration).name : undefined;
}

const files = ["lib", "asm"].flatMap((folder) => filesIn(folder, ".ts"));

test("no declared name uses a second word for a known thing", () => {
  const wrong: string[] = [];
  for (const file of files) {
    walk(parse(file), (node) => {
      const name = declaredName(node);
      if (name === undefined || !(ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) || FOREIGN.has(`${file}: ${name.text}`)) return;
      for (const word of wordsOf(name.text)) {
        if (Object.hasOwn(WORDS, word)) wrong.push(`${file}:${lineOf(node)} ${name.text}: here "${word}" is called ${WORDS[word]}`);
      }
    });
  }
  expect(wrong).toEqual([]);
});

test("no file is named with a banned word", () => {
  expect(files.filter((file) => wordsOf(file.split("/").at(-1) as string).some((word) => Object.hasOwn(WORDS, word)))).toEqual([]);
});

test("no name is exported as default", () => {
  const wrong = files.filter((file) => {
    let found = false;
    walk(parse(file), (node) => {
      if (ts.isExportAssignment(node) || node.kind === ts.SyntaxKind.DefaultKeyword) found ||= !ts.isDefaultClause(node);
    });
    return found;
  });
  expect(wrong).toEqual([]);
});

test("no file names a path of one machine", () => {
  const homes = new RegExp(["/work", "/root", "/home", "/Users"].map((folder) => `(?<![\\w.])${folder}/\\w`).join("|"));
  const texts = ["lib", "asm", "native", "test", "bench", "examples", "docs", ".ci"].flatMap((folder) =>
    filesIn(folder, ".ts", ".mjs", ".cc", ".h", ".md", "run"),
  );
  const top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "package.json", "binding.gyp"].filter((file) => filesIn(".", file).includes(file));
  expect([...texts, ...top].filter((file) => file !== "test/tidy/words.test.ts" && homes.test(read(file)))).toEqual([]);
});
