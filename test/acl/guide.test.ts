/**
 * docs/from-pyacl.md: each snippet runs as its page says, and prints what its comments say. docs/rt.md is what the table of npurt/rt says;
 * written anew with NPURT_WRITE_DOCS=1.
 */
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { rt } from "npurt/rt";
import { tableRows } from "../../dist/lib/acl/table";

const root = path.join(__dirname, "../..");
const text = fs.readFileSync(path.join(root, "docs/from-pyacl.md"), "utf8");
/** Snippets and the code that they stand behind: a package of their own that has npurt installed. */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-guide-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

const [, prologue = ""] = /```\n(const \{ acl \}[\s\S]*?)```/.exec(text) ?? [];
const snippets = [...text.matchAll(/^## (.*)$|```js\n([\s\S]*?)```/gm)].reduce<{ title: string; code: string }[]>((found, [, title, code]) => {
  if (title !== undefined) found.push({ title, code: "" });
  else (found.at(-1) as { code: string }).code = code as string;
  return found;
}, []);
const runnable = snippets.filter(({ code }) => code !== "");

/** What the comments behind console.log say, in order. */
const promised = (code: string): string[] => [...code.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, line]) => line as string);

beforeAll(() => {
  fs.mkdirSync(path.join(folder, "node_modules"));
  fs.symlinkSync(root, path.join(folder, "node_modules/npurt"), "dir");
});

test("each section of the guide that shows code has one snippet", () => {
  expect(prologue).toContain("acl.init()");
  expect(text.match(/```js/g)?.length).toBe(runnable.length);
  expect(runnable.length).toBeGreaterThanOrEqual(10);
});

test.each(runnable)("$title", async ({ title, code }) => {
  const file = path.join(folder, `${title.replace(/\W+/g, "-")}.cjs`);
  fs.writeFileSync(file, code.includes('require("npurt') && !code.includes("ok(") ? code : prologue + code);
  const env = { ...process.env, ASCEND_PROCESS_LOG_PATH: folder };
  const printed = await new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    const child = execFile(process.execPath, [file], { env, timeout: 60_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
  expect(printed).toEqual({
    code: 0,
    stdout: promised(code)
      .map((line) => `${line}\n`)
      .join(""),
    stderr: "",
  });
  expect(promised(code).length + (code.match(/ok\(/g)?.length ?? 0)).toBeGreaterThan(0);
});

test("docs/rt.md is what the table says", () => {
  const file = path.join(root, "docs/rt.md");
  const rows = tableRows().filter(({ name }) => name.startsWith("rt/"));
  expect(rows.map(({ name }) => name.slice(3))).toEqual(Object.keys(rt));
  const lines = rows.map(({ name, call }) => {
    const args = call.args.map((one) => (one.optional ? `${one.name}?` : one.name)).join(", ");
    return `| \`${name.slice(3)}(${args})\` | ${call.returns} | ${call.doc} |`;
  });
  const made = [
    "# npurt/rt",
    "",
    'The small rtXxx face: `const { rt, RT_MEMALLOC_DEFAULT } = require("npurt/rt")`. The calls are those of [npurt/acl](from-pyacl.md) with fewer arguments,',
    "over the same devices and handles: out-parameters come first in the result, the code last. This page is made from the table",
    "(`NPURT_WRITE_DOCS=1 npx jest test/acl/guide`).",
    "",
    "Constants: `RT_MEMALLOC_DEFAULT`, `RT_MEMCPY_HOST_TO_HOST`, `RT_MEMCPY_HOST_TO_DEVICE`, `RT_MEMCPY_DEVICE_TO_HOST`, `RT_MEMCPY_DEVICE_TO_DEVICE`.",
    "`rtKernelLaunch` takes its arguments as C takes a struct of pointers and 64-bit numbers, and in `config` `{ blocks, timeoutUs }`.",
    "",
    "| call | result | |",
    "|---|---|---|",
    ...lines,
    "",
  ].join("\n");
  if (process.env["NPURT_WRITE_DOCS"] === "1") {
    fs.writeFileSync(file, made);
  }
  expect(fs.readFileSync(file, "utf8")).toBe(made);
});
