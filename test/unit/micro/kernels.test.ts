/** Which build runs, and that a wrong one is found out. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { testKernels, testKernelsInTurns } from "../../../dist/lib/host/kernel-test";
import { chooseKernels, KERNEL_BUILDS, kernelModule } from "../../../dist/lib/host/kernels";
import { beds } from "./bed";

const root = path.join(__dirname, "../../..");
const file = (build: string): string => path.join(root, `dist/asm/micro.${build}.wasm`);
const runs = (build: (typeof KERNEL_BUILDS)[number]): boolean => typeof kernelModule(build) !== "string";
const highest = KERNEL_BUILDS.filter(runs).at(-1)!;

function thrown(work: () => unknown): AclError {
  try {
    work();
  } catch (error) {
    if (error instanceof AclError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Runs `code` in a process of its own, with `kernels` = the module under test; gives what it prints. */
function inProcess(code: string, env: NodeJS.ProcessEnv = {}): string {
  const script = `const kernels = require("./dist/lib/host/kernels.js"); const fs = require("node:fs"); ${code}`;
  return execFileSync(process.execPath, ["-e", script], { cwd: root, env: { ...process.env, NPURT_KERNELS: "", ...env }, encoding: "utf8" }).trim();
}

test.each(KERNEL_BUILDS)("asked for %s, the highest build up to it runs, and why says what is missing", (asked) => {
  const choice = chooseKernels({ kernels: asked });
  const allowed = KERNEL_BUILDS.slice(0, KERNEL_BUILDS.indexOf(asked) + 1);
  expect(choice).toMatchObject({ asked, used: allowed.filter(runs).at(-1) });
  const missing = allowed.slice(allowed.indexOf(choice.used) + 1);
  for (const build of missing) expect(choice.why).toContain(`${build}: `);
  if (missing.length === 0) expect(choice.why).toBe("");
});

test("strict throws where a lower build would run", () => {
  for (const kernels of KERNEL_BUILDS) {
    if (runs(kernels)) expect(chooseKernels({ kernels, strict: true }).used).toBe(kernels);
    else
      expect(thrown(() => chooseKernels({ kernels, strict: true }))).toMatchObject({
        code: 507033,
        message: expect.stringContaining(`"${kernels}"`),
      });
  }
});

test("a build that does not exist is refused with the names of those that do", () => {
  expect(thrown(() => chooseKernels({ kernels: "fast" }))).toMatchObject({
    code: 107000,
    message: expect.stringMatching(/option kernels is "fast".*base, relaxed, wide/),
  });
});

test("NPURT_KERNELS names the highest build allowed; without it the best one runs", () => {
  const print = "const { asked, used } = kernels.chooseKernels(); console.log(asked, used);";
  expect(inProcess(print, { NPURT_KERNELS: "base" })).toBe("base base");
  expect(inProcess(print)).toBe(`wide ${highest}`);
  expect(inProcess(`try { ${print} } catch (error) { console.log(error.code, error.message); }`, { NPURT_KERNELS: "x" })).toMatch(
    /^107000 NPURT_KERNELS is "x"/,
  );
});

test("nothing is printed, the flags go back, and a process that only chose ends by itself", () => {
  // Relaxed SIMD is the one flag whose value shows from outside: what validates before and after must be the same.
  const validates = `WebAssembly.validate(fs.readFileSync("dist/asm/micro.relaxed.wasm"))`;
  expect(inProcess(`const before = ${validates}; kernels.chooseKernels(); console.log(before === ${validates});`)).toBe("true");
  const settled = `kernels.chooseKernels(); setInterval(() => {}, 50).ref(); kernels.whenTieredUp().then((wrong) => { console.log(wrong === ""); process.exit(); });`;
  expect(inProcess(settled)).toBe("true");
});

test("optimised code gives the same answers as first-tier code", () => {
  for (const { module } of beds) for (let i = 0; i < 20; i++) expect(testKernels(module)).toBe("");
});

test("all builds export the same functions, and import nothing but memory", () => {
  const modules = beds.map(({ module }) => module);
  const exports = modules.map((module) =>
    WebAssembly.Module.exports(module)
      .map(({ name, kind }) => `${kind} ${name}`)
      .sort(),
  );
  for (const one of exports) expect(one).toEqual(exports[0]);
  for (const module of modules) expect(WebAssembly.Module.imports(module).map(({ name }) => name)).toEqual(["memory"]);
  expect(fs.statSync(file("wide")).size).toBeLessThanOrEqual(60 * 1024);
});

test.each([
  ["asm/micro/module.ts", /export declare function (\w+)\(([^)]*)\)/g],
  ["lib/host/kernel-exports.ts", /^ {2}(\w+)\(([^)]*)\): /gm],
])("%s declares what the modules export, with as many parameters", (name, pattern) => {
  const text = fs.readFileSync(path.join(root, name), "utf8");
  const declared = [...text.matchAll(pattern)].map(([, one, parameters]) => [one, parameters!.split(":").length - 1] as const);
  const exported = Object.entries(beds[0]!.e).map(([one, value]) => [one, (value as () => void).length] as const);
  expect(Object.fromEntries(declared)).toEqual(Object.fromEntries(exported));
});

test("the known-answer test finds changed instructions, also in turns", async () => {
  const inTurns = (module: WebAssembly.Module): Promise<string> => new Promise((done) => testKernelsInTurns(module, done));
  const bytes = fs.readFileSync(file("base"));
  // f32x4.mul (fd e6 01) -> f32x4.add (fd e4 01), one place at a time.
  const places: number[] = [];
  for (let at = bytes.indexOf("fde601", 0, "hex"); at >= 0; at = bytes.indexOf("fde601", at + 1, "hex")) places.push(at);
  expect(places.length).toBeGreaterThan(300);
  let tried = 0;
  let found = 0;
  for (let i = 0; i < places.length; i += 17) {
    const changed = Buffer.from(bytes);
    changed[places[i]! + 1] = 0xe4;
    if (!WebAssembly.validate(changed)) continue;
    tried++;
    const module = new WebAssembly.Module(changed);
    const wrong = testKernels(module);
    if (wrong !== "") found++;
    if (tried < 3) expect(await inTurns(module)).toBe(wrong);
  }
  // Not all places can be seen: one tile of many may go unused by these shapes.
  expect(tried).toBeGreaterThan(15);
  expect(found / tried).toBeGreaterThan(0.85);
});
