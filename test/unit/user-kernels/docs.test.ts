/** docs/kernels.md: its snippets run, its sources compile, its table names every import there is. */
import fs from "node:fs";
import path from "node:path";
import * as npurt from "npurt";
import { compileText, helperKernels } from "../../acl/kernels/build";

const text = fs.readFileSync(path.join(__dirname, "../../../docs/kernels.md"), "utf8");
const snippets = (language: string): string[] =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, "g"))].map((match) => match[1]!);

const AsyncFunction = (async () => {}).constructor as new (...args: string[]) => (...args: unknown[]) => Promise<void>;

test("the JavaScript runs and prints what its comments say", async () => {
  const [code] = snippets("js") as [string];
  const device = await npurt.Device.open({ cores: 2, memoryBytes: 32 * 2 ** 20 });
  const logged: unknown[] = [];
  await new AsyncFunction("Kernel", "device", "helpers", "console", code)(npurt.Kernel, device, helperKernels(), {
    log: (value: unknown) => logged.push(value),
  });
  await device.close();
  expect(logged).toEqual([3.5]);
});

test("the AssemblyScript compiles and doubles", async () => {
  const [code] = snippets("ts") as [string];
  const device = await npurt.Device.open({ cores: 1, memoryBytes: 32 * 2 ** 20 });
  const kernel = await npurt.Kernel.load(device, compileText(code), { Twice: ["ptr"] });
  const x = device.allocatePinned(64);
  const floats = x.view("float32") as Float32Array;
  floats.set([1, 2, 3, 4]);
  const stream = device.createStream();
  stream.launchKernel(kernel.function("Twice"), { args: [x], blocks: 3 });
  await stream.synchronize();
  expect([...floats.subarray(0, 4)]).toEqual([2, 4, 6, 4]);
  await device.close();
});

test("every import that the loader knows is in the table", () => {
  const source = fs.readFileSync(path.join(__dirname, "../../../lib/runtime/kernel-module.ts"), "utf8");
  const calls = /const CALLS[^{]*\{([^}]*)\}/.exec(source)![1]!;
  const known = [...calls.matchAll(/^\s*(\w+):/gm)].map((match) => match[1]!);
  expect(known.length).toBeGreaterThan(5);
  expect(known.filter((name) => !text.includes(`| \`${name}(`) && !text.includes(`, \`${name}(`))).toEqual([]);
});
