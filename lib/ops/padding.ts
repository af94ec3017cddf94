/** Pad: fill the target, copy what is kept of the data into it; or, axis by axis, copies of the elements that the mode repeats. */
import { formatDims, mapDim, normalizeAxis, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { elements, encode, gatherView, rowMajor, sizeOf, type Tensor, tensor, walk } from "../graph/tensor";
import type { View } from "../program/types";
import { defineOp, string } from "./define";
import type { Lowering } from "./lowering";
import { copyPicked } from "./picks";
import { numbersOf } from "./reshape";
import { axesOf, ramp, rejects, sample, scalar } from "./sample";
import { stripType } from "./strip-builder";
import { attributeToInput } from "./upgrade";
import { sliceView } from "./views";

/** Pads per axis: [begin..., end...] over `axes`, or over all axes. */
function padsOf(pads: readonly number[], axes: readonly number[] | undefined, rank: number, node: string): { begin: number[]; end: number[] } {
  const listed = axes?.map((axis) => normalizeAxis(axis, rank, node)) ?? Array.from({ length: rank }, (_, i) => i);
  if (pads.length !== 2 * listed.length) {
    throw shapeError(`${node}: ${pads.length} pads for ${listed.length} axes; there must be two per axis`);
  }
  const begin = new Array<number>(rank).fill(0);
  const end = new Array<number>(rank).fill(0);
  listed.forEach((axis, i) => {
    begin[axis] = pads[i]!;
    end[axis] = pads[i + listed.length]!;
  });
  return { begin, end };
}
const whole = (each: Tensor | undefined): number[] | undefined => each && Array.from(each.data as ArrayLike<number | bigint>, Number);

/** The part of `data` that survives negative pads, and where it goes. */
function kept(dims: readonly number[], begin: readonly number[], end: readonly number[]): { from: number[]; count: number[]; to: number[] } {
  return {
    from: begin.map((pad) => Math.max(0, -pad)),
    to: begin.map((pad) => Math.max(0, pad)),
    count: dims.map((dim, axis) => Math.max(0, dim - Math.max(0, -begin[axis]!) - Math.max(0, -end[axis]!))),
  };
}

/** Which element of an axis of n stands at position i, counted from its first. */
const SOURCES: Readonly<Record<string, (i: number, n: number) => number>> = {
  edge: (i, n) => Math.min(n - 1, Math.max(0, i)),
  wrap: (i, n) => ((i % n) + n) % n,
  reflect: (i, n) => {
    const period = Math.max(1, 2 * (n - 1));
    const at = ((i % period) + period) % period;
    return at < n ? at : period - at;
  },
};
/** Modes that take a copy per repetition: pads that repeat an axis this often are damaged. */
const REPEATS = new Set(["wrap", "reflect"]);
const MOST_REPEATS = 4096;

const sourcesOf = (mode: string, dim: number, begin: number, end: number): number[] =>
  Array.from({ length: dim + begin + end }, (_, i) => SOURCES[mode]!(i - begin, dim));

function pickedTensor(data: Tensor, from: readonly (readonly number[])[]): Tensor {
  const dims = from.map((list) => list.length);
  const [source, target] = [rowMajor(data.dims), rowMajor(dims)];
  const result = elements(data.dtype, sizeOf(dims));
  for (let index = 0; index < result.length; index++) {
    result[index] = data.data[from.reduce((at, list, axis) => at + list[Math.floor(index / target[axis]!) % list.length]! * source[axis]!, 0)]!;
  }
  return { dtype: data.dtype, dims, data: result };
}

/** Axis after axis: an axis that stays as it is costs nothing. */
function lowerPicked(b: Lowering, source: View, from: readonly (readonly number[])[]): void {
  const changed = from.flatMap((list, axis) => (list.length === source.dims[axis] && list.every((at, i) => at === i) ? [] : [axis]));
  if (changed.length === 0) {
    b.alias(source);
  }
  let now = source;
  changed.forEach((axis, i) => {
    const last = i === changed.length - 1;
    const next = last ? b.target() : b.temporary(source.dtype, now.dims.with(axis, from[axis]!.length));
    copyPicked(b, next, now, axis, from[axis]!);
    now = next;
  });
}

export const Pad = defineOp({
  names: { onnx: ["Pad", 25] },
  inputs: ["data", "pads", "value?", "axes?"],
  attributes: { mode: string("constant") },
  upgrades: {
    2: (form) => ({ ...form, attributes: new Map([...form.attributes].map(([name, value]) => [name === "paddings" ? "pads" : name, value])) }),
    11: (form, node) => {
      const value = form.attributes.get("value");
      const padded = attributeToInput("pads", 1)(form, node);
      const attributes = new Map([...padded.attributes].filter(([name]) => name !== "value"));
      const dtype: DtypeName = form.inputs[0]?.dtype ?? "float32";
      const constant = encode(tensor(dtype, [], [typeof value === "number" ? value : 0]));
      return { inputs: [...padded.inputs, { name: `@${node.name}.value`, dtype, dims: [], constant }], attributes };
    },
  },
  needs: ["pads", "axes"],
  infer: ({ data, pads, axes }, { mode }, { node }) => {
    if (mode !== "constant" && !SOURCES[mode]) {
      throw shapeError(`${node}: mode "${mode}" is none of constant, ${Object.keys(SOURCES).join(", ")}`);
    }
    const { begin, end } = padsOf(numbersOf(pads, "pads", node)!, numbersOf(axes, "axes", node), data.dims.length, node);
    const often = data.dims.findIndex((dim, axis) => REPEATS.has(mode) && begin[axis]! + end[axis]! > MOST_REPEATS * Math.max(1, Number(dim) - 1));
    if (often >= 0) {
      throw shapeError(`${node}: mode "${mode}" would repeat axis ${often} of ${formatDims(data.dims)} more than ${MOST_REPEATS} times`);
    }
    const dims = data.dims.map((dim, axis) =>
      mapDim(
        dim,
        (n) => n + begin[axis]! + end[axis]!,
        (n) => `${n}+${begin[axis]! + end[axis]!}`,
      ),
    );
    if (dims.some((dim) => typeof dim === "number" && dim < 0)) {
      throw shapeError(`${node}: negative pads remove more than ${formatDims(data.dims)} has`);
    }
    return [{ dtype: data.dtype, dims }];
  },
  reference: ({ data, pads, value, axes }, { mode }, [out]) => {
    const { dtype, dims } = out!;
    const { begin, end } = padsOf(whole(pads)!, whole(axes), dims.length, "Pad");
    if (mode !== "constant") {
      return [
        pickedTensor(
          data,
          dims.map((_, axis) => sourcesOf(mode, data.dims[axis]!, begin[axis]!, end[axis]!)),
        ),
      ];
    }
    const part = kept(data.dims, begin, end);
    const result = elements(dtype, sizeOf(dims));
    result.fill((value?.data[0] ?? (result instanceof Float64Array ? 0 : 0n)) as never);
    const strides = rowMajor(data.dims);
    const source = gatherView(
      data,
      part.count,
      strides,
      part.from.reduce((offset, at, axis) => offset + at * strides[axis]!, 0),
    );
    const target = rowMajor(dims);
    walk(
      part.count,
      target,
      (index, offset) => (result[offset] = source.data[index]!),
      part.to.reduce((offset, at, axis) => offset + at * target[axis]!, 0),
    );
    return [{ dtype, dims, data: result }];
  },
  lower: (b, { data, pads, value, axes }, { mode }) => {
    const { begin, end } = padsOf(whole(pads.constant)!, whole(axes?.constant), data.dims.length, b.what);
    if (mode !== "constant") {
      lowerPicked(
        b,
        data.view,
        data.dims.map((dim, axis) => sourcesOf(mode, dim, begin[axis]!, end[axis]!)),
      );
      return;
    }
    const part = kept(data.dims, begin, end);
    const target = b.target();
    value ? b.map(target, [value], (_, fill) => fill!) : b.map(target, [], (s) => s.constant(stripType(data.dtype), 0));
    const cut = (view: View, at: readonly number[]): View => at.reduce((v, start, axis) => sliceView(v, axis, start, part.count[axis]!), view);
    b.copy(cut(target, part.to), cut(data.view, part.from));
  },
  samples: () => [
    sample("zeros", { data: ramp([2, 3]), pads: axesOf(1, 0, 0, 2) }),
    sample("value and axes", { data: ramp([2, 3]), pads: axesOf(1, 1), value: scalar(7), axes: axesOf(-1) }),
    sample("negative", { data: ramp([4, 5]), pads: axesOf(-1, 1, 0, -2) }),
    sample("attributes of opset 2", { data: ramp([2, 3]) }, { attributes: { pads: [0, 1, 1, 0], value: 1.5 }, floats: ["value"], opset: 2 }),
    sample("reflect", { data: ramp([2, 5]), pads: axesOf(1, 2, 0, 3) }, { attributes: { mode: "reflect" as never } }),
    sample("edge, negative", { data: ramp([3, 4]), pads: axesOf(2, -1, 1, 2) }, { attributes: { mode: "edge" as never } }),
    sample("wrap", { data: ramp([3, 4]), pads: axesOf(1, 5, 1, 2) }, { attributes: { mode: "wrap" as never } }),
    rejects("no mode", { data: ramp([2]), pads: axesOf(1, 1) }, 100021, /none of constant/, { attributes: { mode: "mirror" as never } }),
    rejects("too few pads", { data: ramp([2, 3]), pads: axesOf(1, 0, 0) }, 100021, /two per axis/),
  ],
});
