/** Handles that a program drops: what they hold goes back, in a process of its own whose garbage collector can be called. */
import { execFileSync } from "node:child_process";
import path from "node:path";

const BYTES = 2 ** 16;

test("buffers that were written, read and forgotten give their memory back", () => {
  const printed = execFileSync(process.execPath, ["--expose-gc", path.join(__dirname, "buffers-forgotten.cjs")], { encoding: "utf8" });
  const { most, left } = JSON.parse(printed) as { most: number; left: number };
  expect(most).toBeGreaterThanOrEqual(BYTES);
  expect(left).toBeLessThan(BYTES);
});
