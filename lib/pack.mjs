/**
 * Packs what a start needs into two files: dist/main.js (all that `require("npurt")` loads) and dist/compiler.js (what the first model loads besides).
 * A file costs a start about as much as 10 KB of code. Every packed file of dist/lib becomes a line that takes its module out of the pack, so a module
 * exists once, whoever loads it by whatever path. Operator families, the text form and other things that few need stay files of their own.
 */
import fs from "node:fs";
import path from "node:path";

const ENTRIES = { "main.js": "lib/index.js", "compiler.js": "lib/compile/compile.js" };
/** Of these packages only one file is wanted: their entries load many more. Name as required -> file. */
const PARTS = { "@bufbuild/protobuf/wire": "node_modules/@bufbuild/protobuf/dist/cjs/wire/binary-encoding.js" };

/** `require("x")` at the start of a line is loaded with the module, elsewhere when it is called. */
const LOADED = /^(?:(?:const|var|let) [^\n=]+ = )?(?:__\w+\()?require\("([^"]+)"\)/gm;
const REQUIRE = /\brequire\("([^"]+)"\)/g;

/** @param root absolute path of the package, built by tsc */
export function pack(root) {
  const dist = path.join(root, "dist");
  const sources = new Map();
  const read = (name) => {
    const file = name.startsWith("node_modules/") ? path.join(root, name) : path.join(dist, name);
    if (!sources.has(name)) sources.set(name, fs.readFileSync(file, "utf8"));
    return sources.get(name);
  };
  /** The packed name of what `from` requires as `specifier`: a path from dist, or from the root for parts of packages. */
  const resolve = (from, specifier) => {
    if (!specifier.startsWith(".")) return PARTS[specifier];
    const target = path.posix.join(path.posix.dirname(from), specifier);
    return /\.js(on)?$/.test(target) ? target : `${target}.js`;
  };

  const packOf = new Map();
  const collect = (name, into) => {
    if (packOf.has(name)) return;
    packOf.set(name, into);
    for (const [, specifier] of read(name).matchAll(LOADED)) {
      const target = resolve(name, specifier);
      if (target !== undefined) collect(target, into);
    }
  };
  for (const [file, entry] of Object.entries(ENTRIES)) collect(entry, file);

  const bodyOf = (name) => {
    const folder = path.posix.dirname(name);
    const code = read(name)
      .replace(REQUIRE, (whole, specifier) => {
        const target = resolve(name, specifier);
        if (target === undefined) return whole;
        const holder = packOf.get(target);
        if (holder === undefined) return `require(${JSON.stringify(target.startsWith(".") ? target : `./${target}`)})`;
        return holder === packOf.get(name) || holder === "main.js"
          ? `load(${JSON.stringify(target)})`
          : `require("./${holder}").load(${JSON.stringify(target)})`;
      })
      .replace(/\b__dirname\b/g, `(__dirname + "/${folder}")`);
    // In parentheses V8 compiles a function at once; otherwise it would read every module twice.
    return `${JSON.stringify(name)}: (function (exports) {${code}\n})`;
  };
  for (const file of Object.keys(ENTRIES)) {
    const names = [...packOf.keys()].filter((name) => packOf.get(name) === file);
    const bodies = `{\n${names.map(bodyOf).join(",\n")}\n}`;
    fs.writeFileSync(
      path.join(dist, file),
      file === "main.js" ? mainText(bodies) : `"use strict";\nconst { load, add } = require("./main.js");\nexports.load = load;\nadd(${bodies});\n`,
    );
  }
  for (const [name, file] of packOf) {
    if (name.startsWith("node_modules/")) continue;
    const up = path.posix.relative(path.posix.dirname(name), file);
    fs.writeFileSync(path.join(dist, name), `module.exports = require("${up}").load("${name}");\n`);
  }
}

function mainText(bodies) {
  return `"use strict";
const loaded = Object.create(null);
const bodies = ${bodies};
/** A module by its path from dist; as in Node, a circle of modules sees what is there so far. */
function load(name) {
  let exports = loaded[name];
  if (exports === undefined) {
    exports = loaded[name] = {};
    bodies[name](exports);
  }
  return exports;
}
exports.load = load;
exports.add = (more) => Object.assign(bodies, more);
`;
}
