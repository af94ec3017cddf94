/**
 * The entry `npurt/ort`: the interface of onnxruntime-common, so that code and test runners written for it run on npurt unchanged. Types are
 * onnxruntime-common's as far as memory of the host is concerned: code written for them type-checks against ours, and our tensors and sessions pass
 * for its own. What stands in textures and GPU buffers does not exist here: such members are `never`.
 */
import type { Device } from "../runtime/device";
import { capabilities, env } from "./env";
import { HostSession } from "./inference";
import { HostTensor } from "./tensor";

export { capabilities, env };

export declare namespace Tensor {
  /** The array that holds a type. Where the engine has Float16Array, float16 is one; 4-bit types are packed, two to a byte. */
  interface DataTypeMap {
    float32: Float32Array;
    uint8: Uint8Array;
    int8: Int8Array;
    uint16: Uint16Array;
    int16: Int16Array;
    int32: Int32Array;
    int64: BigInt64Array;
    string: string[];
    bool: Uint8Array;
    float16: Uint16Array;
    float64: Float64Array;
    uint32: Uint32Array;
    uint64: BigUint64Array;
    uint4: Uint8Array;
    int4: Int8Array;
  }
  interface ElementTypeMap {
    float32: number;
    uint8: number;
    int8: number;
    uint16: number;
    int16: number;
    int32: number;
    int64: bigint;
    string: string;
    bool: boolean;
    float16: number;
    float64: number;
    uint32: number;
    uint64: bigint;
    uint4: number;
    int4: number;
  }
  type Type = keyof DataTypeMap;
  type DataType = DataTypeMap[Type];
  type ElementType = ElementTypeMap[Type];
  type DataLocation = "none" | "cpu" | "cpu-pinned" | "texture" | "gpu-buffer" | "ml-tensor";
  type CpuPinnedDataTypes = Exclude<Type, "string">;
}

export interface TypedTensor<T extends Tensor.Type> {
  readonly dims: readonly number[];
  readonly type: T;
  /** @throws AclError 107017 after dispose */
  readonly data: Tensor.DataTypeMap[T];
  /** Elements: the product of `dims`. */
  readonly size: number;
  /** "cpu", "cpu-pinned" for one made with that location, "none" after dispose. */
  readonly location: Tensor.DataLocation;
  /** @throws AclError 207000: always, as the next two */
  readonly texture: never;
  readonly gpuBuffer: never;
  readonly mlTensor: never;
  getData(releaseData?: boolean): Promise<Tensor.DataTypeMap[T]>;
  /** Lets go of the data. A second call does nothing. */
  dispose(): void;
  /** The same data under other dims. @throws AclError 107000 if they hold another number of elements */
  reshape(dims: readonly number[]): TypedTensor<T>;
  /** @throws AclError 207000: pictures need a canvas */
  toDataURL(options?: unknown): never;
  toImageData(options?: unknown): never;
}

export interface Tensor extends TypedTensor<Tensor.Type> {}

export interface CpuPinnedConstructorParameters<T extends Tensor.CpuPinnedDataTypes = Tensor.CpuPinnedDataTypes> {
  readonly location: "cpu-pinned";
  readonly type: T;
  readonly dims: readonly number[];
  readonly data: Tensor.DataTypeMap[T];
}

type Numeric = Exclude<Tensor.Type, "string" | "bool" | "uint64" | "int64">;

/** `new Tensor(type, data, dims)` and `new Tensor(data, dims)`; without dims, all elements on one axis. @throws AclError 107000 */
export interface TensorConstructor {
  new (type: "string", data: readonly string[], dims?: readonly number[]): TypedTensor<"string">;
  new (type: "bool", data: Uint8Array | readonly boolean[], dims?: readonly number[]): TypedTensor<"bool">;
  new (type: "uint8", data: Uint8ClampedArray, dims?: readonly number[]): TypedTensor<"uint8">;
  new <T extends "uint64" | "int64">(
    type: T,
    data: Tensor.DataTypeMap[T] | readonly bigint[] | readonly number[],
    dims?: readonly number[],
  ): TypedTensor<T>;
  new <T extends Numeric>(type: T, data: Tensor.DataTypeMap[T] | readonly number[], dims?: readonly number[]): TypedTensor<T>;
  new (data: Float32Array, dims?: readonly number[]): TypedTensor<"float32">;
  new (data: Int8Array, dims?: readonly number[]): TypedTensor<"int8">;
  new (data: Uint8Array | Uint8ClampedArray, dims?: readonly number[]): TypedTensor<"uint8">;
  new (data: Uint16Array, dims?: readonly number[]): TypedTensor<"uint16">;
  new (data: Int16Array, dims?: readonly number[]): TypedTensor<"int16">;
  new (data: Int32Array, dims?: readonly number[]): TypedTensor<"int32">;
  new (data: BigInt64Array, dims?: readonly number[]): TypedTensor<"int64">;
  new (data: readonly string[], dims?: readonly number[]): TypedTensor<"string">;
  new (data: readonly boolean[], dims?: readonly number[]): TypedTensor<"bool">;
  new (data: Float64Array, dims?: readonly number[]): TypedTensor<"float64">;
  new (data: Uint32Array, dims?: readonly number[]): TypedTensor<"uint32">;
  new (data: BigUint64Array, dims?: readonly number[]): TypedTensor<"uint64">;
  new (
    type: Tensor.Type,
    data: Tensor.DataType | readonly number[] | readonly string[] | readonly bigint[] | readonly boolean[],
    dims?: readonly number[],
  ): Tensor;
  new (data: Tensor.DataType, dims?: readonly number[]): Tensor;
  new <T extends Tensor.CpuPinnedDataTypes>(parameters: CpuPinnedConstructorParameters<T>): TypedTensor<T>;
  /** A tensor over `data` as it is: any array of the host is pinned enough for npurt. */
  fromPinnedBuffer<T extends Tensor.CpuPinnedDataTypes>(type: T, data: Tensor.DataTypeMap[T], dims?: readonly number[]): TypedTensor<T>;
  /** @throws AclError 207000: always, as the next three. Pictures need a canvas, and there is no memory but the host's */
  fromImage(source: unknown, options?: unknown): never;
  fromTexture(texture: unknown, options?: unknown): never;
  fromGpuBuffer(buffer: unknown, options?: unknown): never;
  fromMLTensor(tensor: unknown, options?: unknown): never;
}

export const Tensor = HostTensor as unknown as TensorConstructor;

/** What a run returns for an output. */
export type OnnxValue = Tensor;
export type OnnxValueDataLocation = Tensor.DataLocation;

/** What a run takes: our tensors, those of onnxruntime-common, or anything with the same three members. */
export interface TensorLike {
  readonly type: Tensor.Type;
  readonly data: Tensor.DataType;
  readonly dims: readonly number[];
}

export declare namespace InferenceSession {
  type FeedsType = { readonly [name: string]: TensorLike };
  type FetchesType = readonly string[] | { readonly [name: string]: TensorLike | null };
  type ReturnType = { readonly [name: string]: OnnxValue };
  type OnnxValueMapType = ReturnType;

  /** Where and how npurt runs the model. Other providers are accepted and mean nothing: npurt is the only one here. */
  interface NpurtExecutionProviderOption {
    readonly name: "npurt";
    /** Default: the open device with the lowest number; if there is none, one is opened and stays open. */
    readonly device?: Device;
    /** Runs per shape that may be in flight at once. */
    readonly frames?: number;
    /** Compiled shapes that are kept. */
    readonly programs?: number;
  }
  type ExecutionProviderConfig = NpurtExecutionProviderOption | { readonly name: string } | string;

  interface SessionOptions {
    executionProviders?: readonly ExecutionProviderConfig[];
    /** Cores of the device, where this session is the one that opens it. */
    intraOpNumThreads?: number;
    interOpNumThreads?: number;
    /** Sizes of open dims by their name. They are compiled for at once. */
    freeDimensionOverrides?: { readonly [name: string]: number };
    graphOptimizationLevel?: "disabled" | "basic" | "extended" | "layout" | "all";
    enableCpuMemArena?: boolean;
    enableMemPattern?: boolean;
    executionMode?: "sequential" | "parallel";
    /** Refused: programs are not written as ONNX. */
    optimizedModelFilePath?: string;
    /** Keep a trace that `endProfiling` writes. The device must have been opened with `trace`, or by this session. */
    enableProfiling?: boolean;
    profileFilePrefix?: string;
    logId?: string;
    logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
    logVerbosityLevel?: number;
    /** Results are in memory of the host; "cpu" and "cpu-pinned" ask for just that. */
    preferredOutputLocation?: OnnxValueDataLocation | { readonly [outputName: string]: OnnxValueDataLocation };
    enableGraphCapture?: boolean;
    /** Refused: give the path of the model, and what it refers to is found beside it. */
    externalData?: readonly (string | { readonly path: string; readonly data: unknown })[];
    extra?: Record<string, unknown>;
  }

  interface RunOptions {
    logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
    logVerbosityLevel?: number;
    /** true: the run ends at once, with error 107035. */
    terminate?: boolean;
    tag?: string;
    extra?: Record<string, unknown>;
    /** Gives the run up when it fires; not part of onnxruntime-common. */
    signal?: AbortSignal;
  }

  interface TensorValueMetadata {
    readonly name: string;
    readonly isTensor: true;
    readonly type: Tensor.Type;
    /** A dim that the model leaves open is its name. */
    readonly shape: ReadonlyArray<number | string>;
  }
  interface NonTensorValueMetadata {
    readonly name: string;
    readonly isTensor: false;
  }
  type ValueMetadata = TensorValueMetadata | NonTensorValueMetadata;
}

export interface InferenceSession {
  /**
   * Runs the model. `fetches` names the outputs that are wanted (default all), or gives tensors to write them into; null stands for a new tensor.
   * @throws AclError 100017 for a feed that does not fit, 100018 for a fetch, 107035 if aborted, 107017 after release
   */
  run(feeds: InferenceSession.FeedsType, options?: InferenceSession.RunOptions): Promise<InferenceSession.ReturnType>;
  run(
    feeds: InferenceSession.FeedsType,
    fetches: InferenceSession.FetchesType,
    options?: InferenceSession.RunOptions,
  ): Promise<InferenceSession.ReturnType>;
  /** Lets go of the model. A second call does nothing. */
  release(): Promise<void>;
  startProfiling(): void;
  /** Writes the timeline of the device to `<profileFilePrefix>_<time>.json`, if the session was created with `enableProfiling`. */
  endProfiling(): void;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly InferenceSession.ValueMetadata[];
  readonly outputMetadata: readonly InferenceSession.ValueMetadata[];
}

export interface InferenceSessionFactory {
  /** @throws AclError as Executor.load, and 107000 for an option that makes no sense */
  create(path: string, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
  create(buffer: ArrayBufferLike, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
  create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
  create(buffer: Uint8Array, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
}

export const InferenceSession = HostSession as unknown as InferenceSessionFactory;

/** Settings of the process. Only `wasm.numThreads` means something here: the cores of a device that a session opens. */
export interface Env {
  logLevel?: "verbose" | "info" | "warning" | "error" | "fatal";
  debug?: boolean;
  trace?: boolean;
  readonly versions: { readonly common: string; readonly npurt: string };
  readonly wasm: { numThreads?: number; [flag: string]: unknown };
  readonly webgl: { readonly context: never; [flag: string]: unknown };
  readonly webgpu: { readonly adapter: never; readonly device: never; readonly profiling: never; [flag: string]: unknown };
  [name: string]: unknown;
}
