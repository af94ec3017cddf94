/**
 * Random operators against onnxruntime-node in a process of its own: shapes, element types, attributes, opsets. What the compiler refuses must be a typed error;
 * what runs must agree with the float64 reference, and the reference with the peer. NPURT_FUZZ=seed:count runs other and more cases, NPURT_FUZZ_ONLY=Conv,Pool those alone.
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { compileModel } from "../../dist/lib/compile/pipeline";
import { AclError } from "../../dist/lib/errors/acl-error";
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { decode, encode, type Tensor } from "../../dist/lib/graph/tensor";
import { differences } from "../ops/compare";
import { runOnDevice } from "../ops/device";
import { model } from "../ops/models";
import { referenceOf } from "../ops/samples";
import { ARRANGEMENT } from "./arrangement";
import { CONTRIB } from "./contrib";
import { ELEMENTWISE } from "./elementwise";
import { LAYERS } from "./layers";
import { NETWORKS } from "./networks";
import { type Case, Random } from "./random";

const PEERS = path.join(__dirname, "../../bench/peers");
const hasPeer = fs.existsSync(path.join(PEERS, "node_modules/onnxruntime-node"));
if (!hasPeer) console.log("without a peer (node bench/peers.mjs installs it): random operators are compared with their references only");

const [seed, count] = (process.env["NPURT_FUZZ"] ?? "1:8").split(":").map(Number) as [number, number];
const only = process.env["NPURT_FUZZ_ONLY"]?.split(",");
const KINDS = { ...ELEMENTWISE, ...ARRANGEMENT, ...NETWORKS, ...LAYERS, ...CONTRIB };
const CLOSE = { relative: 1e-4, absolute: 2e-5 };
const HALF = { relative: 5e-3, absolute: 5e-3 };

interface Made {
  readonly kind: string;
  readonly text: string;
  readonly case: Case;
  readonly bytes: Uint8Array;
  readonly feeds: Record<string, Tensor>;
  readonly outputs: readonly string[];
}
interface Stored64 {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  readonly bytes: string;
}
type Answer = { readonly values: readonly Stored64[] } | { readonly error: string };

function make(kind: string, number: number): Made {
  const it = KINDS[kind]!(new Random(seed * 7919 + number * 104729 + [...kind].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7)));
  const feeds: Record<string, Tensor> = {};
  const constants: Record<string, Tensor> = {};
  const inputs = it.inputs.map((given, index) => {
    if (given) (given.fixed ? constants : feeds)[`x${index}`] = given;
    return given ? `x${index}` : "";
  });
  while (inputs.at(-1) === "") inputs.pop();
  const outputs = Array.from({ length: it.outputs ?? 1 }, (_, index) => `y${index}`);
  const attributes = Object.fromEntries(Object.entries(it.attributes ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  const bytes = model({
    nodes: [{ op: it.op, domain: it.domain ?? "", inputs, outputs, attributes }],
    inputs: Object.entries(feeds).map(([name, { dtype, dims }]) => ({ name, dtype, dims })),
    outputs: outputs.map((name) => ({ name })),
    constants,
    opsets: { "": it.opset, ...(it.domain ? { [it.domain]: 1 } : {}) },
  });
  const shown = it.inputs.map((given) => (given ? `${given.fixed ? "=" : ""}${given.dtype}[${given.dims}]` : "-")).join(" ");
  const named = JSON.stringify(attributes, (_, value) => (typeof value === "bigint" ? Number(value) : value));
  return { kind, text: `${kind}#${number} ${it.op}-${it.opset} ${shown} ${named}`, case: it, bytes, feeds, outputs };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

/** Answers of the peer, in order; a case that kills its process has an error. */
function askPeer(made: readonly Made[]): Answer[] {
  if (!hasPeer) return [];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-fuzz-"));
  const [cases, results] = [path.join(folder, "cases"), path.join(folder, "results")];
  const line = ({ bytes, feeds, outputs }: Made): string => {
    const given = Object.entries(feeds).map(([name, value]) => [name, { dtype: value.dtype, dims: value.dims, bytes: base64(encode(value).bytes) }]);
    return JSON.stringify({ model: base64(bytes), feeds: Object.fromEntries(given), outputs });
  };
  fs.writeFileSync(cases, made.map(line).join("\n"));
  fs.writeFileSync(results, "");
  const read = (): Answer[] =>
    fs
      .readFileSync(results, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((each) => JSON.parse(each) as Answer);
  while (read().length < made.length) {
    try {
      execFileSync(process.execPath, [path.join(__dirname, "peer.mjs"), PEERS, cases, results, String(read().length)], { stdio: "ignore" });
    } catch {
      fs.appendFileSync(results, `${JSON.stringify({ error: "the peer's process ended" })}\n`);
    }
  }
  const answers = read();
  fs.rmSync(folder, { recursive: true });
  return answers;
}

const closeness = ({ inputs }: Case) => (inputs.some((given) => given?.dtype === "float16") ? HALF : CLOSE);

/** Quantized numbers may round to the next step either way. */
function steps(what: string, got: Tensor, want: Tensor): string[] {
  const at = Array.from(want.data as Float64Array).findIndex((value, i) => !(Math.abs(value - Number(got.data[i])) <= 1));
  return at < 0 && got.dtype === want.dtype ? [] : [`${what}: element ${at}: ${got.data[at]} instead of ${want.data[at]}`];
}

/** What is wrong with a case; undefined if nothing is. */
function check(made: Made, answer: Answer | undefined): string | undefined {
  const theirs =
    answer && "values" in answer ? answer.values.map(({ bytes, ...type }) => decode({ ...type, bytes: Buffer.from(bytes, "base64") })) : undefined;
  const shapes = Object.fromEntries(Object.entries(made.feeds).map(([name, { dims }]) => [name, dims]));
  const near = closeness(made.case);
  let wanted: Tensor[];
  let got: Tensor[];
  try {
    wanted = referenceOf(made);
    got = runOnDevice(compileModel(made.bytes, { shapes }), made.feeds, seed);
  } catch (error) {
    if (!(error instanceof AclError) || error.code === 100000)
      return `${made.text}: ${String(error instanceof Error ? error.stack : error).slice(0, 400)}`;
    return theirs ? `${made.text}: refused, ${error.code} ${error.message.slice(0, 200)}` : undefined;
  }
  const compare = (what: string, these: readonly Tensor[], those: readonly Tensor[]): string[] =>
    made.kind.startsWith("Quantized") && !those[0]!.dtype.startsWith("float")
      ? steps(what, these[0]!, those[0]!)
      : those.flatMap((value, index) => differences(these[index]!, value, near).map((text) => `${what}, output ${index}: ${text}`));
  const found = [...compare("device against reference", got, wanted), ...(theirs ? compare("reference against peer", wanted, theirs) : [])];
  return found.length > 0 ? `${made.text}: ${found.slice(0, 3).join("; ")}` : undefined;
}

const kinds = Object.keys(KINDS).filter((kind) => !only || only.includes(kind));
const all = kinds.flatMap((kind) => Array.from({ length: count }, (_, number) => make(kind, number)));
let answers: readonly Answer[] = [];
beforeAll(() => (answers = askPeer(all)), 120_000);

test.each(kinds)("%s", (kind) => {
  const wrong = all.flatMap((each, index) => (each.kind === kind ? (check(each, answers[index]) ?? []) : []));
  const own = answers.filter((_, index) => all[index]!.kind === kind);
  if (process.env["NPURT_FUZZ"]) {
    const failures = own.flatMap((answer) => ("error" in answer ? answer.error : []));
    console.log(`${kind}: ${own.length - failures.length} of ${own.length} by the peer, ${wrong.length} wrong; ${failures[0] ?? ""}`);
  }
  expect(wrong).toEqual([]);
});
