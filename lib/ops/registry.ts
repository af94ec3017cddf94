/** Every operator, found by format, domain and name. Built-in ones are listed, users add theirs with `registerOp`. */
import { AclError } from "../errors/acl-error";
import { nearestName } from "../errors/make";
import type { Node } from "../graph/ir";
import type { AnyOp } from "./define";
import * as binary from "./binary";
import * as constant from "./constant";
import * as convolution from "./convolution";
import * as matmul from "./matmul";
import * as movement from "./movement";
import * as normalization from "./normalization";
import * as padding from "./padding";
import * as pooling from "./pooling";
import * as reduction from "./reduction";
import * as reshape from "./reshape";
import * as unary from "./unary";

const FAMILIES: readonly Readonly<Record<string, unknown>>[] = [
  unary,
  binary,
  constant,
  reshape,
  movement,
  padding,
  reduction,
  matmul,
  convolution,
  pooling,
  normalization,
];
/** The newest operator set whose forms have been compared with ours. */
export const NEWEST_OPSET = 25;

const isOp = (value: unknown): value is AnyOp => typeof value === "object" && value !== null && "lower" in value && "infer" in value;
const keyOf = (domain: string, name: string): string => `${domain}:${name}`;

const table = new Map<string, AnyOp>();
const users = new Set<AnyOp>();
for (const family of FAMILIES) {
  for (const op of Object.values(family)) {
    if (isOp(op)) {
      add(op);
    }
  }
}

function add(op: AnyOp): void {
  const { onnx } = op.names;
  if (onnx) {
    table.set(keyOf(onnx[2] ?? "", onnx[0]), op);
  }
}

/** Adds (or replaces) an operator for every model compiled from now on in this thread. Models that use it are compiled on the calling thread. */
export function registerOp(op: AnyOp): void {
  const name = op.names?.onnx?.[0];
  if (typeof name !== "string" || name === "" || typeof op.infer !== "function" || typeof op.lower !== "function" || !Array.isArray(op.inputs)) {
    throw new AclError(100000, "registerOp: an operator needs names.onnx, inputs, infer, reference and lower; see defineOp");
  }
  users.add(op);
  add(op);
}

export const hasUserOps = (): boolean => users.size > 0;
export const allOps = (): AnyOp[] => [...new Set(table.values())];

export function findOp(node: Node): AnyOp | undefined {
  return table.get(keyOf(node.domain, node.op));
}

/** @throws AclError 100024 that lists every node of the model that has no operator */
export function requireOps(nodes: readonly Node[]): void {
  const missing = nodes.filter((node) => !findOp(node));
  if (missing.length === 0) {
    return;
  }
  const failures = missing.map((node) => ({ code: 100024, text: describeMissing(node), node: node.name }));
  throw new AclError(
    100024,
    `${missing.length} node${missing.length === 1 ? " is" : "s are"} not supported: ${failures.map(({ text }) => text).join("; ")}`,
    { failures },
  );
}

function describeMissing(node: Node): string {
  const name = `${node.domain === "" ? "" : `${node.domain}.`}${node.op}`;
  const names = allOps().flatMap((op) => op.names.onnx?.[0] ?? []);
  const near = names.includes(node.op) ? node.op : nearestName(node.op, names);
  const op = allOps().find((each) => each.names.onnx?.[0] === near);
  const hint =
    op && near && isAlike(node.op, near)
      ? `; nearest supported: ${op.names.onnx?.[2] ? `${op.names.onnx[2]}.` : ""}${near}, opset 1 to ${NEWEST_OPSET}`
      : "";
  return `"${node.name}" (${name}, opset ${node.opset}${hint})`;
}

/** A name worth suggesting: a misspelling, or a variant of the same word. */
function isAlike(wanted: string, near: string): boolean {
  const [a, b] = [wanted.toLowerCase(), near.toLowerCase()];
  return a.includes(b) || b.includes(a) || a.slice(0, 4) === b.slice(0, 4);
}
