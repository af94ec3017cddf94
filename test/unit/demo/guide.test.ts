/** The snippets of docs/guide.md, each in a process of its own, as the guide says; a comment after console.log is what has to be printed. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const root = path.join(__dirname, "../../..");
const text = fs.readFileSync(path.join(root, "docs/guide.md"), "utf8");
const prelude = /```\n(const [\s\S]*?)```/.exec(text)?.[1] ?? "";
const snippets = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1] ?? "");

function run(snippet: string): Promise<string> {
  const script = `(async () => {\n${prelude}\n${snippet}\nawait device.close();\n})()`;
  return new Promise((resolve, reject) => {
    execFile(process.execPath, ["-e", script], { cwd: root }, (error, stdout, stderr) =>
      error === null ? resolve(stdout) : reject(new Error(stderr)),
    );
  });
}

test("the guide has its prelude and its snippets", () => {
  expect(prelude).toContain("Device.open");
  expect(snippets.length).toBeGreaterThanOrEqual(8);
});

test.each(snippets.map((snippet, i) => [i + 1, snippet]))("snippet %i", async (_, snippet) => {
  const promised = [...String(snippet).matchAll(/console\.log\(.*\)+; \/\/ (.*)$/gm)].map((match) => match[1]?.trim());
  const printed = (await run(String(snippet))).trim().split("\n");
  if (promised.length > 0) expect(printed).toEqual(promised);
});
