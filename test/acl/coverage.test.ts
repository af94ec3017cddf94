/**
 * docs/acl.md says what became of each public C call: made from the table, the tags of the tests, and the list of calls. Written anew with
 * NPURT_WRITE_DOCS=1; otherwise this test fails if the page is out of date.
 */
import fs from "node:fs";
import path from "node:path";
import "npurt/acl";
import { tableRows, type TableRow } from "../../dist/lib/acl/table";
import { NOT_APPLICABLE, SECTIONS } from "./calls";

const PAGE = path.join(__dirname, "../../docs/acl.md");

/** Names that some test of this folder, or of user kernels, tags with covers(...). */
function tagged(): Set<string> {
  const names = new Set<string>();
  const visit = (folder: string): void => {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const file = path.join(folder, entry.name);
      if (entry.isDirectory()) visit(file);
      else if (/\.(ts|cjs|mjs)$/.test(entry.name)) {
        for (const [, list] of fs.readFileSync(file, "utf8").matchAll(/covers\(([^)]*)\)/g)) {
          for (const [, name] of (list as string).matchAll(/"([^"]+)"/g)) names.add(name as string);
        }
      }
    }
  };
  visit(__dirname);
  visit(path.join(__dirname, "../unit/user-kernels"));
  return names;
}

const rows = tableRows().filter(({ name }) => !name.startsWith("rt/"));
const tags = tagged();
const byC = new Map<string, TableRow>(rows.map((row) => [row.call.c, row]));

function status(c: string): [status: string, python: string, note: string] {
  const row = byC.get(c);
  if (row === undefined) {
    const why = NOT_APPLICABLE[c];
    return why === undefined ? ["open", "", ""] : ["not applicable", "", why];
  }
  const { name, call } = row;
  const signature = `${name}(${call.args.map((one) => (one.optional ? `${one.name}?` : one.name)).join(", ")})`;
  if (call.refused !== undefined) {
    return [`refused ${call.refused}`, signature, call.doc];
  }
  return [tags.has(name) ? "works" : "untested", signature, call.doc];
}

function page(): string {
  const counts: Record<string, number> = {};
  const sections = SECTIONS.map(({ title, calls }) => {
    const lines = calls.map((c) => {
      const [state, python, note] = status(c);
      const key = state.replace(/ \d+$/, "");
      counts[key] = (counts[key] ?? 0) + 1;
      return `| ${c} | ${python === "" ? "" : `\`${python}\``} | ${state} | ${note} |`;
    });
    return [`## ${title}`, "", "| C | npurt/acl | State | |", "|---|---|---|---|", ...lines].join("\n");
  });
  const total = SECTIONS.reduce((sum, { calls }) => sum + calls.length, 0);
  const summary = Object.entries(counts)
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
  return [
    "# Coverage of the CANN runtime's public calls",
    "",
    "Made by `NPURT_WRITE_DOCS=1 npx jest test/acl/coverage` from the table in `lib/acl/families`, and from the tests that assert a call's effect.",
    `"works": a test asserts its effect. "refused": it answers with a code and a reason. "not applicable": no part of an emulated device. "open": not built yet.`,
    "",
    `${total} calls: ${summary}.`,
    "",
    sections.join("\n\n"),
    "",
  ].join("\n");
}

test("docs/acl.md is what table and tests say", () => {
  const made = page();
  if (process.env["NPURT_WRITE_DOCS"] === "1") {
    fs.writeFileSync(PAGE, made);
  }
  expect(fs.readFileSync(PAGE, "utf8")).toBe(made);
});

test("every call of the table is tagged by a test, or refused", () => {
  expect(rows.filter(({ name, call }) => call.refused === undefined && !tags.has(name)).map(({ name }) => name)).toEqual([]);
});

test("every C call of the table is on the list, and no name is there twice", () => {
  const listed = SECTIONS.flatMap(({ calls }) => calls);
  expect(rows.map(({ call }) => call.c).filter((c) => /^acl/.test(c) && !listed.includes(c))).toEqual([]);
  expect(listed.filter((c, index) => listed.indexOf(c) !== index)).toEqual([]);
});
