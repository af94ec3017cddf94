/**
 * Strings on the host: tensors of them, and the operators that take or give them. A device has numbers only, so a session runs these between its programs
 * (see staged.ts).
 */
import type { importAttribute } from "../import/onnx/attribute";
import { AclError } from "../errors/acl-error";
import { type DtypeName, dtypeName } from "../graph/dtype";
import { make } from "../runtime/internals";
import { arrayOf, countOf, type Tensor, type TensorData } from "../runtime/tensor";
import type { RawNode } from "./raw-model";
import { isStrings, type StringTensor } from "./storage";

export type AnyTensor = Tensor | StringTensor;
type Inputs = readonly (AnyTensor | undefined)[];

const reader = () => require("../import/onnx/generated/read") as typeof import("../import/onnx/generated/read");
const wire = () => require("../import/onnx/wire") as typeof import("../import/onnx/wire");
const attributes = () => require("../import/onnx/attribute") as { importAttribute: typeof importAttribute };
const tensors = () => require("../import/onnx/tensor") as typeof import("../import/onnx/tensor");

export const strings = (dims: readonly number[], data: readonly string[]): StringTensor => ({ dtype: "string", dims, data });

function bad(node: RawNode, why: string, code = 100017): AclError {
  return new AclError(code, `node "${node.name}" (${node.op}): ${why}`);
}

const utf8 = new TextDecoder();

/** TensorProto of any element type. */
export function importAny(bytes: Uint8Array, folder: string | undefined, what: string): AnyTensor {
  const proto = wire().readMessage(bytes, reader().readTensorProto);
  if (dtypeName(proto.dataType) === "string") {
    return strings(
      proto.dims.map(Number),
      proto.stringData.map((each) => utf8.decode(each)),
    );
  }
  const { dtype, dims, bytes: stored } = tensors().importTensor(proto, folder, what);
  const data = new (arrayOf(dtype))(countOf(dims));
  new Uint8Array(data.buffer).set(stored);
  return make.tensor(dtype, dims, data);
}

/** Attributes of a node by name; tensors may hold strings. */
class Given {
  readonly #all = new Map<string, unknown>();

  constructor(readonly node: RawNode) {
    for (const proto of wire().readMessage(node.bytes, reader().readNodeProto).attribute) {
      const text = proto.t && dtypeName(proto.t.dataType) === "string";
      const value = text
        ? strings(
            proto.t!.dims.map(Number),
            proto.t!.stringData.map((each) => utf8.decode(each)),
          )
        : attributes().importAttribute(proto, undefined, `node "${node.name}"`);
      this.#all.set(proto.name, value);
    }
  }

  has(name: string): boolean {
    return this.#all.has(name);
  }
  number(name: string, otherwise: number): number {
    return Number(this.#all.get(name) ?? otherwise);
  }
  text(name: string): string | undefined {
    return this.#all.get(name) as string | undefined;
  }
  list<T>(name: string): readonly T[] | undefined {
    return this.#all.get(name) as readonly T[] | undefined;
  }
  /** A tensor attribute as a list of strings or numbers, with its type. */
  tensor(name: string): { readonly dtype: DtypeName; readonly data: readonly (string | number | bigint)[] } | undefined {
    const value = this.#all.get(name) as
      | StringTensor
      | { readonly dtype: DtypeName; readonly dims: readonly number[]; readonly bytes: Uint8Array }
      | undefined;
    if (value === undefined || isStrings(value)) {
      return value as StringTensor | undefined;
    }
    const data = new (arrayOf(value.dtype))(countOf(value.dims));
    new Uint8Array(data.buffer).set(value.bytes);
    return { dtype: value.dtype, data: Array.from(data as ArrayLike<number | bigint>) };
  }
}

function stringsOf(value: AnyTensor | undefined, node: RawNode): StringTensor {
  if (!isStrings(value)) {
    throw bad(node, `a tensor of strings is wanted, not ${value?.dtype ?? "nothing"}`);
  }
  return value;
}
const numbers = (dtype: DtypeName, dims: readonly number[], values: readonly (number | bigint)[]): Tensor => {
  const data = new (arrayOf(dtype))(values.length) as TensorData;
  const big = dtype === "int64" || dtype === "uint64";
  values.forEach((value, i) => (data[i] = (big ? BigInt(value) : Number(value)) as never));
  return make.tensor(dtype, dims, data);
};

/** Pairs of elements of two tensors that broadcast. */
function paired(a: StringTensor, b: StringTensor, node: RawNode): { readonly dims: number[]; readonly pairs: [string, string][] } {
  const rank = Math.max(a.dims.length, b.dims.length);
  const [left, right] = [a, b].map(({ dims }) => [...new Array<number>(rank - dims.length).fill(1), ...dims]) as [number[], number[]];
  const dims = left.map((dim, axis) => {
    const other = right[axis]!;
    if (dim !== other && dim !== 1 && other !== 1) {
      throw bad(node, `[${a.dims.join(", ")}] and [${b.dims.join(", ")}] do not broadcast`, 100021);
    }
    return dim === 1 ? other : dim;
  });
  const at = (i: number, own: readonly number[]): number => {
    let [offset, step] = [0, 1];
    for (let axis = rank - 1; axis >= 0; axis--) {
      offset += (own[axis] === 1 ? 0 : i % dims[axis]!) * step;
      step *= own[axis]!;
      i = Math.floor(i / dims[axis]!);
    }
    return offset;
  };
  return { dims, pairs: Array.from({ length: countOf(dims) }, (_, i) => [a.data[at(i, left)]!, b.data[at(i, right)]!]) };
}

function normalize(node: RawNode, [input]: Inputs): StringTensor[] {
  const given = new Given(node);
  const { dims, data } = stringsOf(input, node);
  if (dims.length < 1 || dims.length > 2 || (dims.length === 2 && dims[0] !== 1)) {
    throw bad(node, `strings of dims [${dims.join(", ")}]; [C] or [1, C] is wanted`, 100021);
  }
  const exact = given.number("is_case_sensitive", 0) !== 0;
  const locale = given.text("locale")?.replace("_", "-");
  const seen = (text: string): string => (exact ? text : text.toLocaleLowerCase(locale));
  const stop = new Set((given.list<string>("stopwords") ?? []).map(seen));
  const action = given.text("case_change_action") ?? "NONE";
  const changed = (text: string): string =>
    action === "LOWER" ? text.toLocaleLowerCase(locale) : action === "UPPER" ? text.toLocaleUpperCase(locale) : text;
  const kept = data.filter((text) => !stop.has(seen(text))).map(changed);
  const result = kept.length > 0 ? kept : [""];
  return [strings(dims.with(-1, result.length), result)];
}

function split(node: RawNode, [input]: Inputs): AnyTensor[] {
  const given = new Given(node);
  const { dims, data } = stringsOf(input, node);
  const delimiter = given.text("delimiter") ?? "";
  const most = given.has("maxsplit") ? given.number("maxsplit", 0) : Number.POSITIVE_INFINITY;
  const partsOf = (text: string): string[] => {
    let rest = delimiter === "" ? text.trim() : text;
    const parts: string[] = [];
    if (rest === "") return parts;
    for (;;) {
      const found = parts.length < most ? (delimiter === "" ? /\s+/.exec(rest) : { index: rest.indexOf(delimiter), 0: delimiter }) : null;
      if (!found || found.index < 0) break;
      parts.push(rest.slice(0, found.index));
      rest = rest.slice(found.index + found[0].length);
    }
    return [...parts, rest];
  };
  const all = data.map(partsOf);
  const width = all.reduce((longest, { length }) => Math.max(longest, length), 0);
  const filled = all.flatMap((parts) => [...parts, ...new Array<string>(width - parts.length).fill("")]);
  return [
    strings([...dims, width], filled),
    numbers(
      "int64",
      dims,
      all.map(({ length }) => length),
    ),
  ];
}

/** RE2 promises linear time; JavaScript's engine may go on for ever, so what it does here can be stopped. */
const MATCH_LIMIT_MS = 1000;
let matcher: ((expression: RegExp, texts: readonly string[]) => boolean[]) | undefined;

function makeMatcher(): NonNullable<typeof matcher> {
  const { createContext, Script } = require("node:vm") as typeof import("node:vm");
  const script = new Script("texts.map((text) => expression.test(text))");
  const place = createContext({});
  return (expression, texts) => {
    try {
      return script.runInContext(Object.assign(place, { expression, texts }), { timeout: MATCH_LIMIT_MS }) as boolean[];
    } finally {
      Object.assign(place, { expression: undefined, texts: undefined });
    }
  };
}

/** What RE2 has and JavaScript too. @throws AclError 100023 */
function expressionOf(node: RawNode): RegExp {
  const pattern = new Given(node).text("pattern") ?? "";
  // RE2 has flags in the pattern, JavaScript beside it.
  const [, flags = "", rest = pattern] = /^\(\?([ims]+)\)(.*)$/s.exec(pattern) ?? [];
  const bare = rest.replace(/\\[^1-9k]/g, "").replace(/\[[^\]]*\]/g, "");
  if (/\\[1-9k]|\(\?<?[=!]/.test(bare)) {
    throw bad(node, "the pattern looks around or back at what it has matched, which RE2 cannot", 100023);
  }
  try {
    return new RegExp(`^(?:${rest})$`, `u${flags}`);
  } catch (cause) {
    throw bad(node, `the pattern is none that JavaScript knows: ${(cause as Error).message}`, 100023);
  }
}

function fullMatch(node: RawNode, [input]: Inputs): Tensor[] {
  const { dims, data } = stringsOf(input, node);
  const expression = expressionOf(node);
  matcher ??= makeMatcher();
  try {
    return [numbers("bool", dims, matcher(expression, data).map(Number))];
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw cause;
    throw bad(node, `matching ${data.length} strings takes more than ${MATCH_LIMIT_MS} ms; write the pattern without repetitions of repetitions`);
  }
}

const KEYS = { strings: "string", int64s: "int64", floats: "float32" } as const;
const UNKNOWN = { strings: "_Unused", int64s: -1n, floats: -0 } as const;

/** Keys or values of a LabelEncoder, however they are given. */
function side(
  given: Given,
  name: "keys" | "values",
): { readonly dtype: DtypeName; readonly data: readonly (string | number | bigint)[] } | undefined {
  const form = (Object.keys(KEYS) as (keyof typeof KEYS)[]).find((each) => given.has(`${name}_${each}`));
  return form ? { dtype: KEYS[form], data: given.list(`${name}_${form}`)! } : given.tensor(`${name}_tensor`);
}

function encodeLabels(node: RawNode, [input]: Inputs): AnyTensor[] {
  const given = new Given(node);
  const classes = given.list<string>("classes_strings");
  const order = classes?.map((_, i) => BigInt(i));
  const words = isStrings(input);
  const keys = classes ? (words ? { dtype: "string" as const, data: classes } : { dtype: "int64" as const, data: order! }) : side(given, "keys");
  const values = classes ? (words ? { dtype: "int64" as const, data: order! } : { dtype: "string" as const, data: classes }) : side(given, "values");
  if (!input || !keys || !values || keys.data.length !== values.data.length) {
    throw bad(node, "needs as many keys as values", 100023);
  }
  const form = (Object.keys(KEYS) as (keyof typeof KEYS)[]).find((each) => KEYS[each] === values.dtype);
  const single = form && { strings: "default_string", int64s: "default_int64", floats: "default_float" }[form];
  const own = single && given.has(single) ? (form === "strings" ? given.text(single)! : given.number(single, 0)) : undefined;
  const otherwise = given.tensor("default_tensor")?.data[0] ?? own ?? UNKNOWN[form ?? "floats"];
  // NaN is a key like others; keys of one type compare as strings.
  const table = new Map(keys.data.map((key, i) => [String(key), values.data[i]!]));
  const found = Array.from(input.data as ArrayLike<string | number | bigint>, (value) => table.get(String(value)) ?? otherwise);
  return [values.dtype === "string" ? strings(input.dims, found as string[]) : numbers(values.dtype, input.dims, found as (number | bigint)[])];
}

/** How often each n-gram of the pool occurs in each row, with up to `max_skip_count` elements left out between two of its own. */
function vectorize(node: RawNode, [input]: Inputs): Tensor[] {
  const given = new Given(node);
  const pool = (given.list<string>("pool_strings") ?? given.list<bigint>("pool_int64s") ?? []).map(String);
  const starts = (given.list<bigint>("ngram_counts") ?? []).map(Number);
  const places = (given.list<bigint>("ngram_indexes") ?? []).map(Number);
  const weights = given.list<number>("weights");
  const mode = given.text("mode") ?? "TF";
  const [shortest, longest, skips] = ["min_gram_length", "max_gram_length", "max_skip_count"].map((name) => given.number(name, 0)) as number[] as [
    number,
    number,
    number,
  ];
  if (!input || input.dims.length < 1 || input.dims.length > 2 || places.length === 0) {
    throw bad(node, "takes [C] or [N, C] and a pool of n-grams", 100021);
  }
  const index = new Map<string, number>();
  let gram = 0;
  starts.forEach((start, i) => {
    for (let at = start; at < (starts[i + 1] ?? pool.length); at += i + 1) {
      index.set(JSON.stringify(pool.slice(at, at + i + 1)), gram++);
    }
  });
  const [rows, size] = input.dims.length === 2 ? (input.dims as [number, number]) : [1, input.dims[0]!];
  const width = Math.max(...places) + 1;
  const counts = new Float32Array(rows * width);
  const items = Array.from(input.data as ArrayLike<string | number | bigint>, String);
  for (let row = 0; row < rows; row++) {
    const line = items.slice(row * size, (row + 1) * size);
    for (let length = shortest; length <= longest; length++) {
      // A single element has nothing to skip between.
      for (let step = 1; step <= (length === 1 ? 1 : skips + 1); step++) {
        for (let at = 0; at + (length - 1) * step < size; at++) {
          const found = index.get(JSON.stringify(Array.from({ length }, (_, i) => line[at + i * step])));
          if (found !== undefined) counts[row * width + places[found]!]! += 1;
        }
      }
    }
  }
  if (mode !== "TF") {
    places.forEach((place, i) => {
      for (let row = 0; row < rows; row++) {
        const at = row * width + place;
        counts[at] = (mode === "IDF" ? Math.min(1, counts[at]!) : counts[at]!) * (weights?.[i] ?? 1);
      }
    });
  }
  return [make.tensor("float32", input.dims.length === 2 ? [rows, width] : [width], counts)];
}

type StringOp = (node: RawNode, inputs: Inputs) => readonly AnyTensor[];

/** Operators that are always on the host, by "domain:Name"; outputs of the first kind may be strings. */
export const STRING_OPS: ReadonlyMap<string, StringOp> = new Map<string, StringOp>([
  [":StringNormalizer", normalize],
  [":StringSplit", split],
  [":RegexFullMatch", fullMatch],
  [":TfIdfVectorizer", vectorize],
  ["ai.onnx.ml:LabelEncoder", encodeLabels],
  [
    ":StringConcat",
    (node, [a, b]) => {
      const { dims, pairs } = paired(stringsOf(a, node), stringsOf(b, node), node);
      return [
        strings(
          dims,
          pairs.map(([x, y]) => x + y),
        ),
      ];
    },
  ],
]);

/** Operators of the device that take strings, too. */
export const ALSO_STRINGS: ReadonlyMap<string, StringOp> = new Map<string, StringOp>([
  [":Identity", (node, [x]) => [stringsOf(x, node)]],
  [
    ":Equal",
    (node, [a, b]) => {
      const { dims, pairs } = paired(stringsOf(a, node), stringsOf(b, node), node);
      return [
        numbers(
          "bool",
          dims,
          pairs.map(([x, y]) => Number(x === y)),
        ),
      ];
    },
  ],
]);

/** Whether an output of a host operator is a tensor of strings. */
export function givesStrings(node: RawNode, output: number, takesText: boolean): boolean {
  switch (opKey(node)) {
    case ":StringNormalizer":
    case ":StringConcat":
      return true;
    case ":StringSplit":
      return output === 0;
    case ":Identity":
      return takesText;
    case "ai.onnx.ml:LabelEncoder": {
      const given = new Given(node);
      return given.has("classes_strings") ? !takesText : side(given, "values")?.dtype === "string";
    }
    default:
      return false;
  }
}

/** Whether a TensorProto holds strings. */
export const isStringData = (bytes: Uint8Array): boolean => dtypeName(wire().readMessage(bytes, reader().readTensorProto).dataType) === "string";

export const opKey = ({ op, domain }: { readonly op: string; readonly domain: string }): string => `${domain}:${op}`;
