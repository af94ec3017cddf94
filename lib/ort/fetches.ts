/** Which outputs a run is to return, and which tensors of the caller they are written into. */
import { AclError } from "../errors/acl-error";
import { invalidParam, nearestName } from "../errors/make";
import type { Tensor as RuntimeTensor } from "../runtime/tensor";
import type { HostValue } from "./sequences";
import { isPacked, isStrings } from "./storage";
import { HostTensor, tensorFor, tensorFrom, tensorOfStrings } from "./tensor";
import type { InferenceSession, OnnxValue } from "./ort";

/** By output name: the tensor to fill, or null for a new one. Undefined: every output, all new. */
export type Fetches = ReadonlyMap<string, unknown> | undefined;

const isTensor = (value: unknown): boolean =>
  value instanceof HostTensor || (value !== null && typeof value === "object" && "type" in value && "data" in value && "dims" in value);

/** `run(feeds, fetches, options)` and `run(feeds, options)`: an object is fetches if one of the outputs is in it, as a tensor or null. */
export function splitArguments(
  second: unknown,
  third: unknown,
  outputNames: readonly string[],
): { readonly fetches: Fetches; readonly options: unknown } {
  if (second === undefined) {
    return { fetches: undefined, options: third };
  }
  if (Array.isArray(second)) {
    return { fetches: namesOf(second, outputNames), options: third };
  }
  if (second === null || typeof second !== "object" || second instanceof HostTensor) {
    throw invalidParam(`session.run: the second argument is the names of outputs, tensors by output name, or options`);
  }
  const given = second as Record<string, unknown>;
  const found = outputNames.filter((name) => Object.hasOwn(given, name) && (given[name] === null || isTensor(given[name])));
  return found.length === 0
    ? { fetches: undefined, options: second }
    : { fetches: new Map(found.map((name) => [name, given[name]])), options: third };
}

function namesOf(names: readonly unknown[], outputNames: readonly string[]): Fetches {
  if (names.length === 0) {
    throw new AclError(100018, `session.run: no output is asked for; leave fetches out for all of them (${outputNames.join(", ")})`);
  }
  for (const name of names) {
    if (typeof name !== "string" || !outputNames.includes(name)) {
      throw new AclError(100018, `session.run: "${String(name)}" is no output; did you mean "${nearestName(String(name), outputNames)}"?`);
    }
  }
  return new Map((names as readonly string[]).map((name) => [name, null]));
}

/** The caller's tensors as the runtime's `outputs`, if it can write into all of them itself. */
export function directOutputs(fetches: Fetches, outputNames: readonly string[]): Record<string, RuntimeTensor> | undefined {
  if (fetches === undefined || fetches.size !== outputNames.length) {
    return undefined;
  }
  const outputs: Record<string, RuntimeTensor> = {};
  for (const [name, value] of fetches) {
    if (value === null) {
      return undefined;
    }
    const tensor = tensorFor(value, `fetch "${name}"`);
    if (isPacked(tensor.dtype)) {
      return undefined;
    }
    outputs[name] = tensor;
  }
  return outputs;
}

/** What the caller gets. Tensors of the caller are filled unless the runtime has done it. */
export function collect(fetches: Fetches, results: Readonly<Record<string, RuntimeTensor>>, filled: boolean): InferenceSession.ReturnType {
  const values: Record<string, OnnxValue> = {};
  for (const name of fetches?.keys() ?? Object.keys(results)) {
    const target = fetches?.get(name) ?? null;
    if (target === null) {
      values[name] = tensorFrom(results[name]!);
    } else {
      if (!filled) {
        fill(name, target as OnnxValue, tensorFrom(results[name]!));
      }
      values[name] = target as OnnxValue;
    }
  }
  return values;
}

/** The same for a model in stages, whose results may be sequences (arrays) or nothing (null). */
export function collectValues(fetches: Fetches, results: Readonly<Record<string, HostValue>>): InferenceSession.ReturnType {
  const hostOf = (value: HostValue): unknown =>
    value === null ? null : Array.isArray(value) ? value.map(hostOf) : isStrings(value) ? tensorOfStrings(value) : tensorFrom(value as RuntimeTensor);
  const values: Record<string, unknown> = {};
  for (const name of fetches?.keys() ?? Object.keys(results)) {
    const target = (fetches?.get(name) ?? null) as OnnxValue | null;
    const result = hostOf(results[name]!);
    if (target !== null) {
      fill(name, target, result as OnnxValue);
    }
    values[name] = target ?? result;
  }
  return values as InferenceSession.ReturnType;
}

function fill(name: string, target: OnnxValue, result: OnnxValue): void {
  const fits =
    target.type === result.type && target.dims.length === result.dims.length && target.dims.every((dim, axis) => dim === result.dims[axis]);
  if (!fits) {
    throw new AclError(
      100018,
      `session.run: output "${name}" is ${result.type}[${result.dims.join(", ")}] and the tensor to write it into is ${target.type}[${target.dims.join(", ")}]`,
    );
  }
  if (result.type === "string") {
    const strings = target.data as string[];
    (result.data as readonly string[]).forEach((text, i) => (strings[i] = text));
    return;
  }
  (target.data as Float32Array).set(result.data as Float32Array);
}
