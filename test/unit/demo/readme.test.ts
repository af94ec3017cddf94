/** The first example of the README, as a reader would run it. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const root = path.join(__dirname, "../../..");

test("the README's example prints the class that it says", () => {
  const [, example = ""] = /```js\n([\s\S]*?)```/.exec(fs.readFileSync(path.join(root, "README.md"), "utf8")) ?? [];
  expect(example.split("\n").length).toBeLessThanOrEqual(20);
  const printed = execFileSync(process.execPath, ["-e", example], { cwd: root, encoding: "utf8" });
  expect(printed.trim()).toBe(/console\.log\(.*\/\/ (\d+)/.exec(example)?.[1]);
});
