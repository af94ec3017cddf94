/** Imports point one way, down (docs/architecture.md). What a folder of lib/ may import stands here, and nothing else. */
import { filesIn, importsOf } from "./sources";

const BELOW_RUNTIME = ["compile", "import", "ops", "program", "graph", "host", "errors", "abi"];
const EVERYTHING = ["runtime", "diag", "index", ...BELOW_RUNTIME];
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  cli: [...EVERYTHING, "acl", "ort", "shims", "serve"],
  serve: EVERYTHING,
  shims: EVERYTHING,
  acl: EVERYTHING,
  ort: EVERYTHING,
  index: ["runtime", ...BELOW_RUNTIME],
  // The loader of the packs stands below everything.
  packs: [],
  runtime: [...BELOW_RUNTIME, "packs"],
  compile: ["import", "ops", "program", "graph", "errors", "abi"],
  import: ["ops", "graph", "errors"],
  ops: ["program", "graph", "errors", "abi"],
  program: ["graph", "errors", "abi"],
  graph: ["errors", "abi"],
  host: ["errors", "abi"],
  errors: [],
  // Diagnosis may read anything; who may import it is said above: nothing on the way of a task.
  diag: EVERYTHING,
};

/** "lib/host/driver" -> "host", "asm/abi/task" -> "abi", "lib/index" -> "index"; undefined for a package or node: module. */
function layerOf(target: string): string | undefined {
  if (target.startsWith("asm/")) return target.startsWith("asm/abi/") ? "abi" : "asm";
  const match = /^lib\/([^/.]+)/.exec(target);
  return match?.[1];
}

const files = filesIn("lib", ".ts");

test("every folder of lib/ has a place in the order", () => {
  const folders = new Set(files.map((file) => layerOf(file)));
  expect([...folders].filter((folder) => MAY_IMPORT[folder ?? ""] === undefined)).toEqual([]);
});

test("no import of lib/ points up or sideways", () => {
  const wrong = files.flatMap((file) => {
    const own = layerOf(file) as string;
    return importsOf(file)
      .map((entry) => ({ ...entry, layer: layerOf(entry.target) }))
      .filter(({ layer }) => layer !== undefined && layer !== own && !MAY_IMPORT[own]?.includes(layer))
      .map(({ line, target }) => `${file}:${line} ${own} must not import ${target}`);
  });
  expect(wrong).toEqual([]);
});

test("lib/ never imports a file outside lib/ and asm/abi/", () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      // package.json is read from dist/lib, one folder deeper: the version comes from there.
      .filter(({ target }) => /^(asm\/(?!abi\/)|native\/|test\/|bench\/|examples\/|dist\/|\.\.\/(?!package\.json$))/.test(target))
      .map(({ line, target }) => `${file}:${line} ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("asm/abi imports nothing but itself, so that both compilers can take it", () => {
  const wrong = filesIn("asm/abi", ".ts").flatMap((file) => importsOf(file).filter(({ target }) => !target.startsWith("asm/abi/")));
  expect(wrong).toEqual([]);
});

test("kernels get addresses: asm/kernels and asm/micro never import streams, fences or the pool", () => {
  const wrong = [...filesIn("asm/kernels", ".ts"), ...filesIn("asm/micro", ".ts")].flatMap((file) =>
    importsOf(file)
      .filter(({ target }) => /^asm\/(sync|core\/(streams|submit|step|tables)|mem\/pool)/.test(target))
      .map(({ line, target }) => `${file}:${line} ${target}`),
  );
  expect(wrong).toEqual([]);
});
