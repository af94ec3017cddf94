/** Pad: fill the target, copy what is kept of the data into it. */
import { AclError } from "../errors/acl-error";
import { formatDims, mapDim, normalizeAxis, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { elements, encode, gatherView, rowMajor, sizeOf, type Tensor, tensor, walk } from "../graph/tensor";
import type { View } from "../program/types";
import { defineOp, string } from "./define";
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
    if (mode !== "constant") {
      throw new AclError(100024, `${node}: mode "${mode}" is not supported yet; only "constant" is`);
    }
    const { begin, end } = padsOf(numbersOf(pads, "pads", node)!, numbersOf(axes, "axes", node), data.dims.length, node);
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
  reference: ({ data, pads, value, axes }, _, [out]) => {
    const { dtype, dims } = out!;
    const { begin, end } = padsOf(whole(pads)!, whole(axes), dims.length, "Pad");
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
  lower: (b, { data, pads, value, axes }) => {
    const { begin, end } = padsOf(whole(pads.constant)!, whole(axes?.constant), data.dims.length, b.what);
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
    rejects("too few pads", { data: ramp([2, 3]), pads: axesOf(1, 0, 0) }, 100021, /two per axis/),
  ],
});
