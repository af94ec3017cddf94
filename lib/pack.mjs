/**
 * Packs what a start needs into two files: dist/main.js (all that `require("npurt")` loads) and dist/compiler.js (what models load besides); lib/packs.ts
 * opens them. A file costs a start about as much as 10 KB of code. Every packed file of dist/lib becomes a line that takes its module out of the pack, so
 * a module exists once, whoever loads it by whatever path. The text form, simulation and other things that few need stay files of their own.
 */
import fs from "node:fs";
import path from "node:path";

const LOADER = "lib/packs.js";
const ENTRIES = { main: ["lib/index.js"], compiler: ["lib/compile/compile.js", "lib/compile/worker.js", "lib/ops/registry.js"] };
/** Modules whose late requires are packed too: of the operator families every model needs some. */
const WHOLE = ["lib/ops/registry.js"];
/** Of these packages only one file is wanted: their entries load many more. Name as required -> file. */
const PARTS = { "@bufbuild/protobuf/wire": "node_modules/@bufbuild/protobuf/dist/cjs/wire/binary-encoding.js" };

/** What lib/index.ts exports and few use: loaded when it is first read from the exports. */
const LATE_EXPORTS = ["./runtime/kernel"];

/**
 * Re-exports constants, which every hot function reads. As getters, the form that tsc gives them, they turn the exports into a dictionary: each read is
 * then a search and a call (a fifth of the time of a small copy). As values they are folded into the code.
 */
const CONSTANTS = "lib/host/layout.js";
const GETTER = /Object\.defineProperty\(exports, "(\w+)", \{ enumerable: true, get: function \(\) \{ return ([\w.]+); \} \}\);/g;

/** By the folder that a module is in: whole lines, and what stands behind the constants of asm/abi. */
const COMMENTS = { lib: /^\s*(?:\/\*\*[\s\S]*?\*\/|\/\/.*)\n/gm, asm: /^\s*\/\*\*[\s\S]*?\*\/\n|(?<=;) \/\/ .*$/gm };

/** `require("x")` at the start of a line is loaded with the module, elsewhere when it is called. */
const LOADED = /^(?:(?:const|var|let) [^\n=]+ = )?(?:__\w+\()?require\("([^"]+)"\)/gm;
const REQUIRE = /\brequire\("([^"]+)"\)/g;

/** @param root absolute path of the package, built by tsc */
export function pack(root) {
  const dist = path.join(root, "dist");
  const sources = new Map();
  const read = (name) => {
    const file = name.startsWith("node_modules/") ? path.join(root, name) : path.join(dist, name);
    if (!sources.has(name)) {
      // Comments stay in the .d.ts: readers of a stack trace need the code, and a start need not read more than that.
      const text = fs.readFileSync(file, "utf8").replace(COMMENTS[name.split("/")[0]] ?? /$^/, "");
      sources.set(name, name === "lib/index.js" ? LATE_EXPORTS.reduce(exportLate, text) : name === CONSTANTS ? exportValues(text) : text);
    }
    return sources.get(name);
  };
  /** The packed name of what `from` requires as `specifier`: a path from dist, or from the root for parts of packages. */
  const resolve = (from, specifier) => {
    if (!specifier.startsWith(".")) return PARTS[specifier];
    const target = path.posix.join(path.posix.dirname(from), specifier);
    return /\.js(on)?$/.test(target) ? target : `${target}.js`;
  };

  // Another build of this folder has packed what ours emitted: there is nothing left to pack, and its packs are right.
  if (Object.values(ENTRIES).some((entries) => entries.some((entry) => read(entry).startsWith("module.exports = ")))) return;
  const packOf = new Map();
  const late = new Set();
  const collect = (name, into) => {
    if (packOf.has(name) || name === LOADER) return;
    packOf.set(name, into);
    const follow = (pattern) =>
      [...read(name).matchAll(pattern)].map(([, specifier]) => resolve(name, specifier)).filter((target) => target !== undefined);
    for (const target of follow(LOADED)) collect(target, into);
    if (!WHOLE.includes(name)) return;
    for (const target of follow(REQUIRE).filter((each) => !packOf.has(each))) {
      late.add(target);
      collect(target, into);
    }
  };
  for (const [into, entries] of Object.entries(ENTRIES)) for (const entry of entries) collect(entry, into);

  /** The code of a module with what it requires taken from the packs by `load`; other files are seen from folder `from`. */
  const linked = (name, from, load) =>
    read(name).replace(REQUIRE, (whole, specifier) => {
      const target = resolve(name, specifier);
      if (packOf.has(target)) return load(target, packOf.get(target));
      return target === undefined ? whole : `require("${relative(from, target)}")`;
    });
  const bodyOf = (name) => {
    const take = (target, holder) => `__load("${target}"${holder === packOf.get(name) || holder === "main" ? "" : `, "${holder}"`})`;
    const code = linked(name, LOADER, take).replace(
      /\b__dirname\b/g,
      `(__folder + "/${path.posix.relative(path.posix.dirname(LOADER), path.posix.dirname(name))}")`,
    );
    // In parentheses V8 compiles a function at once (an arrow function never); otherwise it would read every module twice.
    const body = `function (exports) {${code}\n}`;
    return `${JSON.stringify(name)}: ${late.has(name) ? body : `(${body})`}`;
  };
  for (const pack of Object.keys(ENTRIES)) {
    const names = [...packOf.keys()].filter((name) => packOf.get(name) === pack);
    writePack(path.join(dist, `${pack}.js`), names.map(bodyOf));
  }
  const emitted = ["lib", "asm/abi"].flatMap((folder) =>
    fs.readdirSync(path.join(dist, folder), { recursive: true }).map((file) => `${folder}/${file.replaceAll("\\", "/")}`),
  );
  for (const name of emitted.filter((each) => each.endsWith(".js"))) {
    const take = (target, holder) => `require("${relative(name, LOADER)}").load("${target}", "${holder}")`;
    fs.writeFileSync(path.join(dist, name), packOf.has(name) ? `module.exports = ${take(name, packOf.get(name))};\n` : linked(name, name, take));
  }
  fs.rmSync(path.join(dist, "cache"), { recursive: true, force: true });
}

/** Bodies of modules as one function expression, in ASCII: the loader reads a byte as a character. */
function writePack(file, bodies) {
  const text = `(function (__load, require, __folder) { return {\n${bodies.join(",\n")}\n}; })\n`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are ASCII too
  const [other] = text.match(/[^\x00-\x7f]/) ?? [];
  if (other !== undefined) throw new Error(`${file} holds "${other}": write it as an escape`);
  fs.writeFileSync(file, text);
}

/** How the file `from` requires the file `target`; both are paths from dist. */
function relative(from, target) {
  const found = path.posix.relative(path.posix.dirname(from), target);
  return found.startsWith(".") ? found : `./${found}`;
}

/** Values in place of getters, and no `exports.a = exports.b = void 0` before them: what is written once is a constant to V8. */
function exportValues(text) {
  const values = text.replace(GETTER, "exports.$1 = $2;").replace(/^exports\.\w+ = .*void 0;$/m, "");
  if (values.includes("get:") || values.includes("void 0"))
    throw new Error(`${CONSTANTS}: tsc writes re-exports in another form than pack.mjs knows`);
  return values;
}

/** Turns `var x_1 = require("specifier")` and its getters into getters that require. */
function exportLate(text, specifier) {
  const [line, variable] = text.match(new RegExp(`^(?:const|var) (\\w+) = require\\("${specifier}"\\);\\n`, "m")) ?? [];
  return line === undefined ? text : text.replace(line, "").replaceAll(`return ${variable}.`, `return require("${specifier}").`);
}
