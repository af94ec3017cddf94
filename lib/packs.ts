/**
 * Loads the packs that lib/pack.mjs writes. A fresh process spends most of a start on compiling their code, so what V8 has made of a pack once is kept
 * beside it, in dist/cache: a file per pack and V8, with V8's data first and the source that it belongs to behind it. A file that is absent, of another
 * source, or refused by V8 (other version or flags) costs nothing but the look. It is as trustworthy as the pack itself, since it lies in the same folder.
 * NPURT_CODE_CACHE=0 leaves these files alone.
 */
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

type Load = (name: string, pack?: string) => object;
type Bodies = Record<string, (exports: object) => void>;
type Pack = (load: Load, requireFrom: NodeJS.Require, folder: string) => Bodies;

/** A pack of which nothing is kept yet. */
interface Fresh {
  readonly script: vm.Script;
  readonly source: Buffer;
  readonly file: string;
}

const DIST = path.dirname(__dirname);
const CACHE = path.join(DIST, "cache");
const YOUNG_MS = 10_000;
const wanted = process.env["NPURT_CODE_CACHE"] !== "0";

const loaded: Record<string, object> = Object.create(null);
const bodies: Bodies = Object.create(null);
let fresh: Fresh[] = [];

/** A module by its path from dist, out of `pack` unless an open pack has it. As in Node, a circle of modules sees what is there so far. */
export function load(name: string, pack = "main"): object {
  let exports = loaded[name];
  if (exports === undefined) {
    if (bodies[name] === undefined) {
      Object.assign(bodies, open(pack)(load, require, __dirname));
    }
    exports = loaded[name] = {};
    bodies[name]!(exports);
  }
  return exports;
}

function open(pack: string): Pack {
  const file = path.join(DIST, `${pack}.js`);
  const source = fs.readFileSync(file);
  // One byte per character, and no copy: a larger string, or two of them, would cost a start a garbage collection.
  const text = source.toString("latin1");
  // In a context of its own (Jest) code has to be compiled there, or its arrays would not be ours.
  if (!(vm.Script instanceof Function)) {
    // biome-ignore lint/security/noGlobalEval: the only way to compile in the context of the caller
    return globalThis.eval(`${text}//# sourceURL=${file}`) as Pack;
  }
  const kept = path.join(CACHE, `${pack}-${process.versions.v8}-${process.arch}.bin`);
  const cachedData = wanted ? readKept(kept, source) : undefined;
  const script = new vm.Script(text, { filename: file, ...(cachedData && { cachedData }) });
  if (cachedData === undefined) {
    fresh.push({ script, source, file: kept });
  }
  return script.runInThisContext() as Pack;
}

/** V8's data in `file` if it was made from `source`, byte by byte: V8 itself compares the length only. */
function readKept(file: string, source: Buffer): Buffer | undefined {
  let whole: Buffer;
  try {
    whole = fs.readFileSync(file);
  } catch {
    return undefined;
  }
  const size = whole.length - source.length;
  return size > 0 && source.compare(whole, size) === 0 ? whole.subarray(0, size) : undefined;
}

/**
 * Keeps what V8 has compiled of the packs by now, where nothing is kept yet: best called when a first model has run. V8's flags must be those of the
 * process's start. False where the folder cannot be written, which is nobody's concern.
 */
export function keepCode(): boolean {
  // Later V8 has given up what it compiled and nobody called since.
  const packs = wanted && performance.now() < YOUNG_MS ? fresh : [];
  fresh = [];
  try {
    packs.forEach(keep);
    return true;
  } catch {
    return false;
  }
}

function keep({ script, source, file }: Fresh): void {
  fs.mkdirSync(CACHE, { recursive: true });
  const unfinished = `${file}.${process.pid}`;
  const handle = fs.openSync(unfinished, "wx");
  try {
    fs.writevSync(handle, [script.createCachedData(), source]);
    fs.renameSync(unfinished, file); // other processes see all of it or nothing
  } catch (error) {
    fs.rmSync(unfinished, { force: true });
    throw error;
  } finally {
    fs.closeSync(handle);
  }
}
