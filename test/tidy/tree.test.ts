/** The shape of the tree and of its texts: top-level folders, commands that the documents name, links that they make. */
import fs from "node:fs";
import path from "node:path";
import { filesIn, read, root } from "./sources";

const TOP = new Set([
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "binding.gyp",
  "asm",
  "native",
  "lib",
  "bench",
  "test",
  "docs",
  "examples",
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "LICENSE",
]);
const MADE = new Set(["node_modules", "dist", "build", "prebuilds", "coverage"]);

test("the top level holds what the owner fixed, and dot files", () => {
  const names = fs.readdirSync(root).filter((name) => !name.startsWith(".") && !name.endsWith(".tgz"));
  expect(names.filter((name) => !TOP.has(name) && !MADE.has(name))).toEqual([]);
});

const manifest = JSON.parse(read("package.json")) as {
  scripts: Record<string, string>;
  files: string[];
  gypfile: boolean;
  dependencies: Record<string, string>;
};

test("installing the package runs nothing", () => {
  expect(manifest.gypfile).toBe(false);
  expect(["preinstall", "install", "postinstall"].filter((name) => name in manifest.scripts)).toEqual([]);
  for (const name of Object.keys(manifest.dependencies)) {
    const dependency = JSON.parse(read(`node_modules/${name}/package.json`)) as { scripts?: Record<string, string>; gypfile?: boolean };
    expect(["preinstall", "install", "postinstall"].filter((script) => script in (dependency.scripts ?? {}))).toEqual([]);
    expect(fs.existsSync(path.join(root, "node_modules", name, "binding.gyp"))).toBe(false);
  }
});

const documents = [
  ...["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].filter((file) => fs.existsSync(path.join(root, file))),
  ...filesIn("docs", ".md"),
  ...filesIn("asm", ".md"),
];

/** Fenced and inline code of a document. */
function codeOf(text: string): string[] {
  return [...text.matchAll(/```[^\n]*\n([\s\S]*?)```|`([^`\n]+)`/g)].map((match) => match[1] ?? match[2] ?? "");
}

test.each(documents)("%s names only npm scripts that exist", (file) => {
  const named = codeOf(read(file)).flatMap((code) =>
    [...code.matchAll(/\bnpm (?:run ([\w:-]+)|(test)\b)/g)].map((match) => match[1] ?? match[2] ?? ""),
  );
  expect(named.filter((name) => manifest.scripts[name] === undefined)).toEqual([]);
});

test.each(documents)("%s names only files of the tree that exist", (file) => {
  const paths = codeOf(read(file)).filter((code) => /^(lib|asm|native|test|bench|docs|examples)\/[\w./-]+\.(ts|mjs|md|json|cc|h)$/.test(code));
  expect(paths.filter((name) => !fs.existsSync(path.join(root, name)))).toEqual([]);
});

/** GitHub's anchor of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[`*_]/g, "")
    .replace(/[^\p{L}\p{N}\s-]/gu, "")
    .trim()
    .replace(/\s/g, "-");

test.each(documents)("the links of %s lead somewhere", (file) => {
  const text = read(file).replace(/```[\s\S]*?```/g, "");
  const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1] as string)
    .filter((link) => {
      if (/^[a-z]+:/.test(link)) return false;
      const [target, anchor] = link.split("#");
      const name = target === "" ? file : path.posix.join(path.posix.dirname(file), target as string);
      if (!fs.existsSync(path.join(root, name))) return true;
      if (anchor === undefined || !name.endsWith(".md")) return false;
      return ![...read(name).matchAll(/^#+ (.*)$/gm)].some((match) => anchorOf(match[1] as string) === anchor);
    });
  expect(broken).toEqual([]);
});
