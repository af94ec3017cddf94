/**
 * Packs what a start needs into two files: dist/main.js (all that `require("npurt")` loads) and dist/compiler.js (what the first model loads besides).
 * A file costs a start about as much as 10 KB of code. Every packed file of dist/lib becomes a line that takes its module out of the pack, so a module
 * exists once, whoever loads it by whatever path. Operator families, the text form and other things that few need stay files of their own.
 */
import fs from "node:fs";
import path from "node:path";

const ENTRIES = {
  "main.js": ["lib/index.js"],
  // The compiler, and what nearly every operator family requires.
  "compiler.js": ["lib/compile/compile.js", "lib/ops/arithmetic.js", "lib/ops/packing.js", "lib/ops/upgrade.js", "lib/ops/window.js"],
};
/** Of these packages only one file is wanted: their entries load many more. Name as required -> file. */
const PARTS = { "@bufbuild/protobuf/wire": "node_modules/@bufbuild/protobuf/dist/cjs/wire/binary-encoding.js" };

/** What lib/index.ts exports and few use: loaded when it is first read from the exports. */
const LATE_EXPORTS = ["./runtime/kernel"];

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
      const text = fs.readFileSync(file, "utf8").replace(name.startsWith("lib/") ? /^\s*\/\*\*[\s\S]*?\*\/\n/gm : /$^/, "");
      sources.set(name, name === "lib/index.js" ? LATE_EXPORTS.reduce(exportLate, text) : text);
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
  const collect = (name, into) => {
    if (packOf.has(name)) return;
    packOf.set(name, into);
    for (const [, specifier] of read(name).matchAll(LOADED)) {
      const target = resolve(name, specifier);
      if (target !== undefined) collect(target, into);
    }
  };
  for (const [file, entries] of Object.entries(ENTRIES)) for (const entry of entries) collect(entry, file);

  /** The code of a module with what it requires taken from the packs: `load` loads from the pack that it is itself in. */
  const linked = (name, load) =>
    read(name).replace(REQUIRE, (whole, specifier) => {
      const target = resolve(name, specifier);
      const holder = packOf.get(target);
      if (holder !== undefined) return load(holder, target);
      // A part of the pack stands in another folder than the module did.
      return target === undefined || !packOf.has(name) ? whole : `require("./${target}")`;
    });
  const bodyOf = (name) => {
    const own = packOf.get(name);
    const take = (holder, target) => (holder === own || holder === "main.js" ? `__load("${target}")` : `require("./${holder}").load("${target}")`);
    const code = linked(name, take).replace(/\b__dirname\b/g, `(__dirname + "/${path.posix.dirname(name)}")`);
    // In parentheses V8 compiles a function at once; otherwise it would read every module twice.
    return `${JSON.stringify(name)}: (function (exports) {${code}\n})`;
  };
  for (const file of Object.keys(ENTRIES)) {
    const names = [...packOf.keys()].filter((name) => packOf.get(name) === file);
    const bodies = `{\n${names.map(bodyOf).join(",\n")}\n}`;
    fs.writeFileSync(
      path.join(dist, file),
      file === "main.js"
        ? mainText(bodies)
        : `"use strict";\nconst { load: __load, add } = require("./main.js");\nexports.load = __load;\nadd(${bodies});\n`,
    );
  }
  const emitted = ["lib", "asm/abi"].flatMap((folder) =>
    fs.readdirSync(path.join(dist, folder), { recursive: true }).map((file) => `${folder}/${file.replaceAll("\\", "/")}`),
  );
  for (const name of emitted.filter((each) => each.endsWith(".js"))) {
    const take = (holder, target) => `require("${path.posix.relative(path.posix.dirname(name), holder)}").load("${target}")`;
    fs.writeFileSync(path.join(dist, name), packOf.has(name) ? `module.exports = ${take(packOf.get(name), name)};\n` : linked(name, take));
  }
}

/** Turns `var x_1 = require("specifier")` and its getters into getters that require. */
function exportLate(text, specifier) {
  const [line, variable] = text.match(new RegExp(`^(?:const|var) (\\w+) = require\\("${specifier}"\\);\\n`, "m")) ?? [];
  return line === undefined ? text : text.replace(line, "").replaceAll(`return ${variable}.`, `return require("${specifier}").`);
}

function mainText(bodies) {
  return `"use strict";
const __loaded = Object.create(null);
const __bodies = ${bodies};
/** A module by its path from dist; as in Node, a circle of modules sees what is there so far. */
function __load(name) {
  let exports = __loaded[name];
  if (exports === undefined) {
    exports = __loaded[name] = {};
    __bodies[name](exports);
  }
  return exports;
}
exports.load = __load;
exports.add = (more) => Object.assign(__bodies, more);
`;
}
