/** Tensor as onnxruntime-common has it: data in memory of the host, with its type and dims. */
import { invalidHandle, invalidParam, nearestName, notSupported } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { make } from "../runtime/internals";
import { arrayOf, countOf, Tensor as RuntimeTensor, type TensorData } from "../runtime/tensor";
import { arraysFor, dtypeOfArray, fromRuntime, isPacked, lengthFor, type StringTensor, toRuntime } from "./storage";
import type { Tensor as TensorInterface } from "./ort";

type Data = TensorData | readonly string[];
type Location = TensorInterface.DataLocation;

interface Parts {
  readonly location: Location;
  readonly type: DtypeName;
  readonly dims: readonly number[];
  readonly data: Data;
}

const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);

/** Parts that the runtime made itself: no need to check them. */
let trusted: Parts | undefined;

export class HostTensor {
  readonly type: DtypeName;
  readonly dims: readonly number[];
  readonly size: number;
  #data: Data | undefined;
  #location: Location;
  /** The same data for the runtime, made when it is first fed. */
  #runtime: RuntimeTensor | undefined;

  constructor(first: unknown, second?: unknown, third?: unknown) {
    const parts = first !== undefined && first === trusted ? trusted : partsOf(first, second, third);
    trusted = undefined;
    this.type = parts.type;
    this.dims = parts.dims;
    this.size = countOf(parts.dims);
    this.#data = parts.data;
    this.#location = parts.location;
  }

  get data(): Data {
    if (this.#data === undefined) {
      throw invalidHandle("the tensor was disposed; its data is gone");
    }
    return this.#data;
  }

  get location(): Location {
    return this.#location;
  }

  get texture(): never {
    throw elsewhere("a texture");
  }

  get gpuBuffer(): never {
    throw elsewhere("a GPU buffer");
  }

  get mlTensor(): never {
    throw elsewhere("an MLTensor");
  }

  async getData(_releaseData?: boolean): Promise<Data> {
    return this.data;
  }

  dispose(): void {
    this.#data = undefined;
    this.#runtime = undefined;
    this.#location = "none";
  }

  reshape(dims: readonly number[]): HostTensor {
    checkDims(dims);
    if (countOf(dims) !== this.size) {
      throw invalidParam(`tensor.reshape: [${this.dims.join(", ")}] has ${this.size} elements and [${dims.join(", ")}] ${countOf(dims)}`);
    }
    return trust({ location: this.#location, type: this.type, dims: [...dims], data: this.data });
  }

  toDataURL(): never {
    throw notSupported("tensor.toDataURL needs a canvas, which Node.js does not have; encode tensor.data with an image library");
  }

  toImageData(): never {
    throw notSupported("tensor.toImageData needs a canvas, which Node.js does not have; use tensor.data");
  }

  static fromPinnedBuffer(type: DtypeName, data: Data, dims?: readonly number[]): HostTensor {
    return new HostTensor({ location: "cpu-pinned", type, data, dims: dims ?? [data?.length] });
  }

  static fromImage(): never {
    throw notSupported("Tensor.fromImage needs a canvas, which Node.js does not have; decode the picture with an image library and pass its numbers");
  }

  static fromTexture(): never {
    throw nowhere("texture");
  }

  static fromGpuBuffer(): never {
    throw nowhere("gpu-buffer");
  }

  static fromMLTensor(): never {
    throw nowhere("ml-tensor");
  }

  /** The tensor that the runtime takes; `what` says in an error which feed or fetch it is. */
  static toRuntime(tensor: HostTensor, what: string): RuntimeTensor {
    const { type, dims, size } = tensor;
    if (tensor.#data === undefined) {
      throw invalidHandle(`${what} was disposed; its data is gone`);
    }
    if (isPacked(type)) {
      return make.tensor(type, dims, toRuntime(type, tensor.data, size, what)); // a copy: the packed data may change from run to run
    }
    tensor.#runtime ??= make.tensor(type, dims, toRuntime(type, tensor.data, size, what));
    return tensor.#runtime;
  }
}

function trust(parts: Parts): HostTensor {
  trusted = parts;
  return new HostTensor(parts);
}

const nowhere = (location: string): Error => notSupported(`Tensor: location "${location}" does not exist in npurt; copy the data to an array`);
const elsewhere = (place: string): Error => notSupported(`the tensor is in memory of the host, not in ${place}; use tensor.data`);

function checkDims(dims: unknown): asserts dims is readonly number[] {
  if (!isArray(dims) || !dims.every((dim) => Number.isInteger(dim) && (dim as number) >= 0)) {
    throw invalidParam(`Tensor: dims must be an array of whole numbers of zero or more, not ${isArray(dims) ? `[${dims.join(", ")}]` : typeof dims}`);
  }
}

/** What the three forms of the constructor's arguments say. */
function partsOf(first: unknown, second: unknown, third: unknown): Parts {
  if (typeof first === "string") {
    return complete("cpu", first, second, third);
  }
  if (isArray(first)) {
    const kind = typeof first[0];
    if (kind !== "string" && kind !== "boolean") {
      throw invalidParam(
        `Tensor: no type follows from ${first.length === 0 ? "an empty array" : `an array of ${kind}`}; pass the type first: new Tensor("float32", data, dims)`,
      );
    }
    return complete("cpu", kind === "string" ? "string" : "bool", first, second);
  }
  if (ArrayBuffer.isView(first)) {
    const type = first.constructor.name === "Uint8ClampedArray" ? "uint8" : dtypeOfArray(first);
    return complete("cpu", type, first, second);
  }
  if (first !== null && typeof first === "object" && "location" in first) {
    const { location, type, data, dims } = first as Partial<Record<"location" | "type" | "data" | "dims", unknown>>;
    if (location !== "cpu-pinned") {
      throw nowhere(String(location));
    }
    return complete(location, String(type), data, dims);
  }
  throw invalidParam(`Tensor: pass a type and its data, or a typed array, not ${first === null ? "null" : typeof first}`);
}

function complete(location: Location, name: string, source: unknown, asked: unknown): Parts {
  if (!Object.hasOwn(DTYPES, name)) {
    throw invalidParam(`Tensor: there is no type "${name}"; did you mean "${nearestName(name, Object.keys(DTYPES))}"?`);
  }
  const type = name as DtypeName;
  const data = dataOf(type, source);
  const dims = asked === undefined ? [data.length] : asked;
  checkDims(dims);
  const wanted = type === "string" ? countOf(dims) : lengthFor(type, countOf(dims));
  if (data.length !== wanted) {
    throw invalidParam(`Tensor: dims [${dims.join(", ")}] of ${type} need ${wanted} array elements and data has ${data.length}`);
  }
  return { location, type, dims, data };
}

/** `source` as the array of `type`: itself if it is one, a new array from a list of numbers. */
function dataOf(type: DtypeName, source: unknown): Data {
  if (type === "string") {
    if (!isArray(source) || !source.every((text) => typeof text === "string")) {
      throw invalidParam("Tensor: string is held in an array of strings");
    }
    return source as readonly string[];
  }
  const arrays = arraysFor(type);
  if (isArray(source)) {
    return fromNumbers(type, source);
  }
  const given = (source as object | null | undefined)?.constructor?.name ?? String(source);
  if (given === "Uint8ClampedArray" && type === "uint8") {
    return Uint8Array.from(source as Uint8ClampedArray);
  }
  if (!ArrayBuffer.isView(source) || !arrays.includes(given)) {
    throw invalidParam(`Tensor: ${type} is held in a ${arrays[0]}, not in ${given}`);
  }
  const view = source as TensorData;
  // Uint16Array is always taken for float16; what comes out is of the class that the engine has for it.
  return type === "float16" && given === "Uint16Array" ? fromRuntime(type, view) : view;
}

function fromNumbers(type: DtypeName, source: readonly unknown[]): TensorData {
  const array = type === "float16" ? (globalThis as { Float16Array?: unknown }).Float16Array : arrayOf(type);
  if (array === undefined || isPacked(type) || type === "bfloat16" || type.startsWith("float8")) {
    throw invalidParam(`Tensor: ${type} cannot be made from a list of numbers; pass its bits in a ${arraysFor(type)[0]}`);
  }
  try {
    const from = array as { from(values: readonly unknown[], map?: (value: never) => unknown): TensorData };
    return type === "int64" || type === "uint64" ? from.from(source, BigInt) : from.from(source);
  } catch (cause) {
    throw invalidParam(`Tensor: the list has an element that is no ${type}: ${(cause as Error).message}`, { cause });
  }
}

// What users see it called.
Object.defineProperty(HostTensor, "name", { value: "Tensor" });

/** A feed (or a fetch to fill) as the runtime takes it: ours, onnxruntime-common's, or anything with the same members. */
export function tensorFor(value: unknown, what: string): RuntimeTensor {
  if (value instanceof HostTensor) {
    return HostTensor.toRuntime(value, what);
  }
  if (value instanceof RuntimeTensor) {
    return value;
  }
  const { type, data, dims } = (value ?? {}) as Partial<Record<"type" | "data" | "dims", unknown>>;
  if (typeof type !== "string" || data === undefined || dims === undefined) {
    const given = isArray(value) ? "an array" : value === null ? "null" : ((value as object)?.constructor?.name ?? typeof value);
    throw invalidParam(`${what} must be a Tensor, not ${given}; wrap it: new Tensor(type, data, dims)`);
  }
  return HostTensor.toRuntime(new HostTensor(type, data, dims), what);
}

/** A tensor of strings, for models in stages; undefined for any other. */
export function stringsFor(value: unknown): StringTensor | undefined {
  const { type, data, dims } = (value ?? {}) as Partial<Record<"type" | "data" | "dims", unknown>>;
  if (type !== "string") {
    return undefined;
  }
  const checked = value instanceof HostTensor ? value : new HostTensor(type, data, dims);
  return { dtype: "string", dims: checked.dims, data: checked.data as readonly string[] };
}

export function tensorOfStrings({ dims, data }: StringTensor): TensorInterface {
  return trust({ location: "cpu", type: "string", dims, data }) as unknown as TensorInterface;
}

/** A result of the runtime as users of npurt/ort see it. */
export function tensorFrom({ dtype, dims, data }: RuntimeTensor): TensorInterface {
  return trust({ location: "cpu", type: dtype, dims, data: fromRuntime(dtype, data) }) as unknown as TensorInterface;
}
