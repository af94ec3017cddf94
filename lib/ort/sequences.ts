/** Sequences and optionals on the host: lists of tensors, cut and joined as bytes. */
import { AclError } from "../errors/acl-error";
import { make } from "../runtime/internals";
import { arrayOf, countOf, type Tensor } from "../runtime/tensor";
import type { RawNode } from "./raw-model";
import { isStrings } from "./storage";
import type { AnyTensor } from "./strings";

/** A tensor, a sequence, or an optional without a value. */
export type HostValue = AnyTensor | readonly HostValue[] | null;

export const isTensor = (value: HostValue | undefined): value is Tensor =>
  value !== undefined && value !== null && !Array.isArray(value) && !isStrings(value);

function bad(node: RawNode, why: string): AclError {
  return new AclError(100017, `node "${node.name}" (${node.op}): ${why}`);
}

export function tensorOf(value: HostValue | undefined, node: RawNode): Tensor {
  if (!isTensor(value)) {
    throw bad(
      node,
      isStrings(value) ? "takes strings, which this operator does not have here" : "a tensor is wanted where a sequence or nothing is given",
    );
  }
  return value;
}
function listOf(value: HostValue | undefined, node: RawNode): readonly HostValue[] {
  if (!Array.isArray(value)) {
    throw bad(node, "a sequence is wanted");
  }
  return value as readonly HostValue[];
}

export const scalar = (dtype: "int64" | "bool", value: number): Tensor =>
  make.tensor(dtype, [], dtype === "int64" ? BigInt64Array.of(BigInt(value)) : Uint8Array.of(value));

function positionIn(value: HostValue | undefined, length: number, end: number, node: RawNode): number {
  const given = value === undefined || value === null ? end : Number(tensorOf(value, node).data[0]);
  const at = given < 0 ? given + length : given;
  if (at < 0 || at > end) {
    throw bad(node, `position ${given} is outside a sequence of ${length}`);
  }
  return at;
}

/** Parts of an axis one behind the other. */
function cut(x: Tensor, axis: number, sizes: readonly number[], keep: boolean): Tensor[] {
  const outer = countOf(x.dims.slice(0, axis));
  const inner = countOf(x.dims.slice(axis + 1));
  const all = x.dims[axis]! * inner;
  let start = 0;
  return sizes.map((size) => {
    const part = new (arrayOf(x.dtype))(outer * size * inner);
    for (let i = 0; i < outer; i++) {
      part.set(x.data.subarray(i * all + start, i * all + start + size * inner) as never, i * size * inner);
    }
    start += size * inner;
    return make.tensor(x.dtype, keep ? x.dims.with(axis, size) : x.dims.toSpliced(axis, 1), part);
  });
}

/** Tensors that differ along `axis` only, as one; with `fresh`, equal tensors along a new axis. */
export function join(parts: readonly Tensor[], axis: number, fresh: boolean, node: RawNode): Tensor {
  const first = parts[0];
  if (!first) {
    throw bad(node, "an empty sequence has nothing to join");
  }
  const rank = first.dims.length + Number(fresh);
  const at = axis < 0 ? axis + rank : axis;
  const whole = (dims: readonly number[]): readonly number[] => (fresh ? dims.toSpliced(at, 0, 1) : dims);
  const same = (a: readonly number[]): string => whole(a).toSpliced(at, 1).join();
  if (
    !(at >= 0 && at < rank) ||
    parts.some(({ dtype, dims }) => dtype !== first.dtype || dims.length !== first.dims.length || same(dims) !== same(first.dims))
  ) {
    throw bad(node, `tensors [${parts.map(({ dims }) => dims.join(", ")).join("] and [")}] cannot be joined along axis ${axis}`);
  }
  const size = parts.reduce((sum, { dims }) => sum + whole(dims)[at]!, 0);
  const dims = whole(first.dims).with(at, size);
  const [outer, inner] = [countOf(dims.slice(0, at)), countOf(dims.slice(at + 1))];
  const data = new (arrayOf(first.dtype))(countOf(dims));
  let start = 0;
  for (const part of parts) {
    const run = whole(part.dims)[at]! * inner;
    for (let i = 0; i < outer; i++) {
      data.set(part.data.subarray(i * run, (i + 1) * run) as never, i * size * inner + start);
    }
    start += run;
  }
  return make.tensor(first.dtype, dims, data);
}

function splitToSequence(node: RawNode, [input, split]: readonly (HostValue | undefined)[]): readonly Tensor[] {
  const x = tensorOf(input, node);
  const given = node.numbers.get("axis") ?? 0;
  const axis = given < 0 ? given + x.dims.length : given;
  const total = x.dims[axis];
  if (total === undefined) {
    throw bad(node, `axis ${given} is outside rank ${x.dims.length}`);
  }
  if (split === undefined || split === null) {
    return cut(x, axis, new Array<number>(total).fill(1), (node.numbers.get("keepdims") ?? 1) !== 0);
  }
  const { dims, data } = tensorOf(split, node);
  const sizes = Array.from(data as ArrayLike<number | bigint>, Number);
  if (dims.length === 0) {
    const size = sizes[0]!;
    if (!(size > 0)) {
      throw bad(node, `parts of ${size}`);
    }
    return cut(
      x,
      axis,
      Array.from({ length: Math.ceil(total / size) }, (_, i) => Math.min(size, total - i * size)),
      true,
    );
  }
  if (sizes.some((size) => size < 0) || sizes.reduce((a, b) => a + b, 0) !== total) {
    throw bad(node, `parts of [${sizes.join(", ")}] do not make ${total}`);
  }
  return cut(x, axis, sizes, true);
}

type HostOp = (node: RawNode, inputs: readonly (HostValue | undefined)[]) => HostValue;

export const SEQUENCE_OPS: ReadonlyMap<string, HostOp> = new Map<string, HostOp>([
  ["SequenceEmpty", () => []],
  ["SequenceConstruct", (node, inputs) => inputs.map((value) => tensorOf(value, node))],
  ["SequenceLength", (node, [list]) => scalar("int64", listOf(list, node).length)],
  [
    "SequenceAt",
    (node, [list, at]) => {
      const values = listOf(list, node);
      return values[positionIn(at, values.length, values.length - 1, node)]!;
    },
  ],
  [
    "SequenceInsert",
    (node, [list, value, at]) => {
      const values = listOf(list, node);
      return values.toSpliced(positionIn(at, values.length, values.length, node), 0, tensorOf(value, node));
    },
  ],
  [
    "SequenceErase",
    (node, [list, at]) => {
      const values = listOf(list, node);
      return values.toSpliced(positionIn(at, values.length, values.length - 1, node), 1);
    },
  ],
  ["SplitToSequence", splitToSequence],
  [
    "ConcatFromSequence",
    (node, [list]) =>
      join(
        listOf(list, node).map((value) => tensorOf(value, node)),
        node.numbers.get("axis") ?? 0,
        (node.numbers.get("new_axis") ?? 0) !== 0,
        node,
      ),
  ],
  ["Optional", (_, [value]) => value ?? null],
  ["OptionalHasElement", (_, [value]) => scalar("bool", Number(value !== undefined && value !== null))],
  [
    "OptionalGetElement",
    (node, [value]) => {
      if (value === undefined || value === null) {
        throw bad(node, "the optional has no element");
      }
      return value;
    },
  ],
]);
