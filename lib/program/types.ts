/**
 * A program before it has addresses: instructions over views of blobs. `lib/ops` lowers to this, `lib/compile` plans and schedules it,
 * `encode.ts` turns it into the image that asm/abi/program.ts describes. Nothing here knows ONNX or a device.
 */
import type { DtypeName } from "../graph/dtype";
import type { BuildName } from "./costs";

/** Where a blob lives. `data` is as old as the model, `arena` as the run; inputs and outputs belong to the caller's frame. */
export type BindingName = "data" | "arena" | { readonly input: number } | { readonly output: number };

/** A run of bytes. The planner gives arena blobs their offset; data, input and output blobs have one from the start. */
export interface Blob {
  readonly id: number;
  /** Name of the graph value it was made for; shows in faults, inspect and memory plans. */
  readonly name: string;
  readonly binding: BindingName;
  readonly sizeBytes: number;
  /** Bytes from the binding's base, 64-aligned; set by the planner. */
  offsetBytes?: number;
}

/** A strided window on a blob. Strides are bytes; 0 broadcasts, negative runs backwards; `offsetBytes` is the first element. */
export interface View {
  readonly blob: Blob;
  readonly dtype: DtypeName;
  readonly offsetBytes: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];
}

/** Register types of a strip program; narrower dtypes are widened at load and narrowed at store. */
export type StripType = "f32" | "f64" | "i32" | "u32" | "i64" | "u64";

/** One operation of a strip program in single-assignment form: `args` index earlier values of the same strip. */
export interface StripOp {
  readonly op: StripOpName;
  readonly type: StripType;
  readonly args: readonly number[];
}
/** Value i of a strip is `values[i]`: an input view, a constant, or an operation. */
export type StripValue =
  | { readonly kind: "input"; readonly view: View; readonly type: StripType }
  /** The block of C that an epilogue works on (MATMUL, CONV), or the folded value after a REDUCE. */
  | { readonly kind: "accumulator"; readonly type: StripType }
  | { readonly kind: "constant"; readonly type: StripType; readonly value: number | bigint }
  | ({ readonly kind: "op" } & StripOp);
/**
 * A strip program. In a MAP every view has the same dims (broadcast = stride 0).
 * As an epilogue, views have the dims of the instruction's target, and the only output is the target itself.
 */
export interface Strip {
  readonly values: readonly StripValue[];
  readonly outputs: readonly { readonly view: View; readonly value: number }[];
}

/**
 * Operations on strip registers. Comparisons and logic give 0 or 1 in i32 whatever the operand type (`type` = operand type).
 * `cast_*` converts from `type` with ONNX Cast semantics (float to int truncates towards zero and saturates; NaN gives 0).
 * Integer division by zero gives 0, INT_MIN / -1 gives INT_MIN; shifts by >= width give 0. min/max propagate NaN; *_number variants ignore it.
 */
// biome-ignore format: table
export type StripOpName =
  | "add" | "sub" | "mul" | "div" | "min" | "max" | "pow" | "mod" | "fmod"
  | "neg" | "abs" | "sign" | "floor" | "ceil" | "round" | "trunc" | "sqrt" | "rsqrt" | "reciprocal"
  | "exp" | "log" | "sin" | "cos" | "tan" | "asin" | "acos" | "atan" | "sinh" | "cosh" | "tanh" | "asinh" | "acosh" | "atanh"
  | "erf" | "sigmoid" | "relu" | "clip" | "muladd"
  | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "and" | "or" | "xor" | "not" | "isnan" | "isinf"
  | "bitand" | "bitor" | "bitxor" | "bitnot" | "shl" | "shr"
  | "gelu" | "gelu_tanh" | "silu" | "hard_swish" | "add_relu" | "mul_relu" | "muladd_relu" | "prelu" // f32 only; the encoder also finds these in their parts
  | "quantize_int8" | "quantize_uint8" // f32 args: round(a * b) + c, in i32 and in the range of bytes; the encoder finds it in what is stored
  | "select" // args: condition (i32), then, else
  | "cast_f32" | "cast_f64" | "cast_i32" | "cast_u32" | "cast_i64" | "cast_u64" | "cast_bool";

export type FoldName = "sum" | "mean" | "max" | "min" | "prod" | "sum_square" | "l1" | "log_sum_exp" | "all" | "any" | "arg_max" | "arg_min";

/** Spatial geometry of CONV and POOL, one entry per spatial dim (1 to 3). */
export interface Window {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly padsBegin: readonly number[];
  readonly padsEnd: readonly number[];
}

export type ConvForm = "direct" | "winograd" | "planar" | "planes";

/** Recurrent layers: which gates, and how they meet. */
export type RnnName = "lstm" | "gru" | "gru_reset_after" | "tanh" | "relu";

/** How an element that is brought meets the one that is there. */
export type MergeName = "none" | "add" | "mul" | "min" | "max";

interface Common {
  /** Model node this came from: shows in faults and disassembly. */
  readonly node: string;
}
// biome-ignore format: table
export type Instruction = Common &
  (
    | { readonly op: "copy"; readonly target: View; readonly source: View }
    | { readonly op: "map"; readonly strip: Strip }
    /** Folds the `axes` innermost dims of `source`; `target` has the dims that are left. `after` maps the folded value (accumulator). */
    | { readonly op: "reduce"; readonly fold: FoldName; readonly axes: number; readonly target: View; readonly source: View; readonly after?: Strip }
    /** target[batch..., m, n] = a[batch..., m, k] x b[batch..., k, n]. `b` is packed (see packMatmul in pack.ts) when `packed`. */
    | { readonly op: "matmul"; readonly target: View; readonly a: View; readonly b: View; readonly packed: boolean; readonly epilogue?: Strip }
    /** The matrices [k, n] of source [batch..., k..., n...], the last `columnDims` dims being n, as matmul_integer takes them: target int8 [batches, bytes]. */
    | { readonly op: "pack_integer"; readonly target: View; readonly source: View; readonly columnDims: number }
    /**
     * int32 target[batch..., m, n] = (a[batch..., m, k] - zeroA[batch..., m]) x (B - zeroB[batch..., n]), 8-bit. `b` is int8 [batch..., bytes]: B as
     * packInteger or pack_integer left it; zeroB has the dtype that B had. An epilogue may give the target any dtype.
     */
    | {
        readonly op: "matmul_integer"; readonly target: View; readonly a: View; readonly b: View; readonly zeroA: View; readonly zeroB: View;
        readonly epilogue?: Strip;
      }
    /** Views are logical [N, C, spatial...]; source and target have channel stride = element size (NHWC in memory). Weights packed by packConv. */
    | {
        readonly op: "conv"; readonly target: View; readonly source: View; readonly weights: View; readonly window: Window;
        readonly groups: number; readonly epilogue?: Strip;
        /**
         * What the weights are packed for: packConv, or (3 x 3, strides 1, no dilation, one group, 2-D) packWinograd; planar: the source has its columns
         * dense instead of its channels, and packConv took the channels for a spatial dim; planes: depthwise, rows are dense in both views (takesPlanes), and
         * the weights are [C, taps]. Default direct.
         */
        readonly form?: ConvForm;
      }
    | { readonly op: "pool"; readonly kind: "max" | "average" | "average_include_pad"; readonly target: View; readonly source: View; readonly window: Window }
    /** Softmax of every row of `source`, float32; a row is the innermost dim, dense in both views. May run in place. */
    | { readonly op: "softmax"; readonly target: View; readonly source: View }
    /** (x - mean) / sqrt(variance + epsilon) * scale + shift over every row, float32; scale and shift are [row] and dense. May run in place. */
    | { readonly op: "norm"; readonly target: View; readonly source: View; readonly scale: View; readonly shift: View; readonly epsilon: number }
    /**
     * target[batch..., rows, values] = softmax(q[batch..., rows, depth] x k[batch..., keys, depth] turned * scale + mask[batch..., rows, keys]) x
     * v[batch..., keys, values], float32; rows of the target are dense. With `causal` row r sees keys up to r + causal; `zeros`: a row that sees no key is
     * zeros instead of NaN.
     */
    | {
        readonly op: "attention"; readonly target: View; readonly q: View; readonly k: View; readonly v: View; readonly mask?: View;
        readonly scale: number; readonly causal?: number; readonly zeros: boolean;
      }
    /**
     * The recurrence of a layer. target [time, batch, hidden], source [time, batch, gates * hidden] = the products of the inputs with their bias; state
     * (and cell) [batch, hidden] hold the first state before and the last one after. Innermost dims are dense; weights packed by packRnn.
     */
    | {
        readonly op: "rnn"; readonly kind: RnnName; readonly target: View; readonly source: View; readonly weights: View; readonly state: View;
        readonly cell?: View; readonly extra?: View;
      }
    /** target [outer, count, inner] = rows of source [outer, size, inner] that the dense `indices` [count] name; one outside is a fault. */
    | { readonly op: "gather"; readonly target: View; readonly source: View; readonly indices: View }
    /** target [rows..., n] = elements of source [rows..., size] at indices [rows..., n] along the innermost dim; one outside is a fault. */
    | { readonly op: "gather_elements"; readonly target: View; readonly source: View; readonly indices: View }
    /** Elements of source [rows..., n] go to target [rows..., size], which holds its elements already, at indices [rows..., n]. */
    | { readonly op: "scatter_elements"; readonly target: View; readonly source: View; readonly indices: View; readonly merge: MergeName }
    /** The k largest (least) of each row of source [rows..., n], best first, into target and int64 positions [rows..., k]; work is int64 [rows, k, 2]. */
    | { readonly op: "top_k"; readonly target: View; readonly positions: View; readonly source: View; readonly work: View; readonly largest: boolean }
    /** Running sums or products along the innermost dim of equal dims and types (32- or 64-bit); exclusive: each element leaves itself out. */
    | { readonly op: "cumulate"; readonly target: View; readonly source: View; readonly product: boolean; readonly exclusive: boolean }
    /** target [n, positions, c] = source [n, d, h, w, c] read at grid [n, positions, 2 or 3], float32 with dense channels. */
    | {
        readonly op: "grid_sample"; readonly target: View; readonly source: View; readonly grid: View; readonly mode: "nearest" | "linear" | "cubic";
        readonly border: "zeros" | "edge" | "reflect"; readonly alignCorners: boolean;
      }
    /** target [rois, h, w, c] from source [n, 1, h, w, c] in the boxes rois [rois, 4] of the int64 pictures [rois]. */
    | {
        readonly op: "roi_align"; readonly target: View; readonly source: View; readonly rois: View; readonly pictures: View;
        readonly mode: "avg" | "max"; readonly samples: number; readonly scale: number; readonly offset: number;
      }
    /** Control flow; `to` is an index into the list of regions, before scheduling a label: the instruction behind which the next region starts. */
    | { readonly op: "label"; readonly label: number }
    | { readonly op: "branch"; readonly condition?: View; readonly to: number }
    | { readonly op: "loop"; readonly trip: View; readonly counter: View; readonly condition?: View; readonly to: number }
    | { readonly op: "call"; readonly to: number }
    | { readonly op: "return" }
    | { readonly op: "probe"; readonly probe: string; readonly argument: number; readonly target?: View; readonly tiles: number }
  );

/** Instructions free to run in parallel; a barrier stands between regions. A control instruction has a region of its own. */
export type RegionPlan = readonly Instruction[];

/** What the encoder takes: planned blobs (every arena and data blob has its offset) and scheduled regions. */
export interface ProgramPlan {
  readonly regions: readonly RegionPlan[];
  readonly blobs: readonly Blob[];
  readonly inputs: number;
  readonly outputs: number;
  readonly arenaBytes: number;
  /** The kernel build that it is for. Default USUAL_BUILD. */
  readonly build?: BuildName;
}
