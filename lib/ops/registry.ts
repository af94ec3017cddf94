/** Every operator, found by format, domain and name. Built-in ones are listed, users add theirs with `registerOp`. */
import { AclError } from "../errors/acl-error";
import type { Node } from "../graph/ir";
import type { AnyOp } from "./define";
import * as binary from "./binary";
import * as constant from "./constant";
import * as convolution from "./convolution";
import * as matmul from "./matmul";
import * as movement from "./movement";
import * as normalization from "./normalization";
import * as pooling from "./pooling";
import * as reduction from "./reduction";
import * as reshape from "./reshape";
import * as unary from "./unary";

const FAMILIES: readonly Readonly<Record<string, unknown>>[] = [
  unary, binary, constant, reshape, movement, reduction, matmul, convolution, pooling, normalization,
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
  throw new AclError(100024, `${missing.length} node${missing.length === 1 ? " is" : "s are"} not supported: ${failures.map(({ text }) => text).join("; ")}`, { failures });
}

function describeMissing(node: Node): string {
  const name = `${node.domain === "" ? "" : `${node.domain}.`}${node.op}`;
  const near = nearest(node.op);
  const elsewhere = allOps().find((op) => op.names.onnx?.[0] === node.op);
  const hint = elsewhere
    ? `; domain "${elsewhere.names.onnx?.[2] ?? ""}" has it up to opset ${Math.max(NEWEST_OPSET, elsewhere.names.onnx?.[1] ?? 0)}`
    : near
      ? `; nearest: ${near.names.onnx?.[0]} (opset ${near.names.onnx?.[1]})`
      : "";
  return `"${node.name}" (${name}, opset ${node.opset}${hint})`;
}

/** The operator whose name takes the fewest edits, if that is at most a third of it. */
function nearest(name: string): AnyOp | undefined {
  let best: AnyOp | undefined;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const op of allOps()) {
    const distance = edits(name.toLowerCase(), op.names.onnx?.[0].toLowerCase() ?? "");
    if (distance < least) {
      least = distance;
      best = op;
    }
  }
  return best;
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
