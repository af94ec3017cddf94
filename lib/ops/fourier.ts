/**
 * Discrete Fourier transforms as products with constant matrices; a long one is two short ones with a turn between (n = a * b: b transforms of a, then
 * a of b), down to what one product does.
 */
import { normalizeAxis, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { elements, roundTo, rowMajor, sizeOf } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { defineOp, int } from "./define";
import type { Expansion } from "./expansion";
import { numbersOf } from "./reshape";
import { axesOf, fixed, noise, ramp, rejects, sample, scalar, values } from "./sample";
import { attributeToInput } from "./upgrade";

/** Longest transform that is one product. */
const DIRECT = 256;
/** A transform is a product with a square matrix: this one has 1 GiB. */
const LONGEST = 16384;
const tolerance = { relative: 1e-4, absolute: 2e-4, why: "f32 sums over the transform's length" };

interface Complex {
  readonly re: Value;
  /** Undefined for real numbers. */
  readonly im: Value | undefined;
}

/** cos and sin of sign * 2 pi * i * j / n for rows i and columns j. */
function turns(g: Expansion, rows: number, columns: number, n: number, sign: number, scale = 1): { cos: Value; sin: Value } {
  const table = (f: (angle: number) => number): Value =>
    g.constant(
      "float32",
      [rows, columns],
      // Whole turns are taken off first: the angle stays exact.
      Array.from({ length: rows * columns }, (_, at) => scale * f((sign * 2 * Math.PI * ((Math.floor(at / columns) * (at % columns)) % n)) / n)),
    );
  return { cos: table(Math.cos), sin: table(Math.sin) };
}

function multiplied(g: Expansion, { re, im }: Complex, { cos, sin }: { cos: Value; sin: Value }, op: "MatMul" | "Mul"): Complex {
  const by = (a: Value, b: Value): Value => g.call(op, [a, b]);
  return im === undefined
    ? { re: by(re, cos), im: by(re, sin) }
    : { re: g.call("Sub", [by(re, cos), by(im, sin)]), im: g.call("Add", [by(re, sin), by(im, cos)]) };
}

/** A divisor of n near its root; 1 if there is none. */
function divisor(n: number): number {
  for (let a = Math.floor(Math.sqrt(n)); a > 1; a--) {
    if (n % a === 0) {
      return a;
    }
  }
  return 1;
}

/** Over the last of two axes, [rows, n] -> [rows, columns]; `columns` below n gives the first ones only. */
function transform(g: Expansion, x: Complex, columns: number, sign: number, scale: number): Complex {
  const [rows, n] = x.re.dims as [number, number];
  const a = n > DIRECT ? divisor(n) : 1;
  if (a === 1) {
    return multiplied(g, x, turns(g, n, columns, n, sign, scale), "MatMul");
  }
  const b = n / a;
  const both = (value: Complex, f: (part: Value) => Value): Complex => ({ re: f(value.re), im: value.im && f(value.im) });
  // Element i * b + j of a row: transforms over i, a turn by j * k, transforms over j; result k + a * l.
  const inner = transform(
    g,
    both(x, (part) => g.reshape(g.transpose(g.reshape(part, [rows, a, b]), [0, 2, 1]), [rows * b, a])),
    a,
    sign,
    1,
  );
  const turned = multiplied(
    g,
    both(inner, (part) => g.reshape(part, [rows, b, a])),
    turns(g, b, a, n, sign),
    "Mul",
  );
  const outer = transform(
    g,
    both(turned, (part) => g.reshape(g.transpose(part, [0, 2, 1]), [rows * a, b])),
    b,
    sign,
    scale,
  );
  const all = both(outer, (part) => g.reshape(g.transpose(g.reshape(part, [rows, a, b]), [0, 2, 1]), [rows, n]));
  return columns < n ? both(all, (part) => g.slice(part, 1, 0, columns)) : all;
}

/** One number per element for reals, two for complex ones: the parts of a value whose last dim says which. */
function partsOf(g: Expansion, x: Value): Complex {
  const dims = x.dims!.slice(0, -1) as number[];
  const part = (i: number): Value => g.reshape(g.slice(x, dims.length, i, i + 1), dims);
  return x.dims![dims.length] === 1 ? { re: g.reshape(x, dims), im: undefined } : { re: part(0), im: part(1) };
}

function joined(g: Expansion, parts: readonly Value[]): Value {
  const dims = parts[0]!.dims as number[];
  return g.call(
    "Concat",
    parts.map((part) => g.reshape(part, [...dims, 1])),
    { axis: dims.length },
  );
}

export const DFT = defineOp({
  names: { onnx: ["DFT", 20] },
  inputs: ["x", "length?", "axis?"],
  attributes: { inverse: int(0), onesided: int(0), $default: int(-2) },
  upgrades: {
    20: (form, node) => {
      const moved = attributeToInput("axis", 2)(form, node);
      return { ...moved, attributes: new Map([...moved.attributes, ["$default", 1n]]) };
    },
  },
  needs: ["length", "axis"],
  infer: ({ x, length, axis }, { inverse, onesided, $default }, { node }) => {
    requireDtype(x.dtype, "float", node);
    const rank = x.dims.length;
    const kind = x.dims[rank - 1];
    const at = normalizeAxis(numbersOf(axis, "axis", node)?.[0] ?? $default, rank, node);
    if (at === rank - 1 || (kind !== 1 && kind !== 2) || (onesided && !inverse && kind === 2)) {
      throw shapeError(
        `${node}: [${x.dims}] ends in 1 for real or 2 for complex numbers, which is no axis to transform; half a result is of real ones`,
      );
    }
    const size = Number(x.dims[at]);
    const half = onesided !== 0 && inverse !== 0;
    const n = numbersOf(length, "dft_length", node)?.[0] ?? (half ? 2 * (size - 1) : size);
    if (n < 1 || n > LONGEST) {
      throw shapeError(`${node}: a transform of length ${n}; lengths from 1 to ${LONGEST} are supported`);
    }
    const dims = x.dims.with(at, onesided && !inverse ? Math.floor(n / 2) + 1 : n).with(rank - 1, half ? 1 : 2);
    return [{ dtype: x.dtype, dims }];
  },
  reference: ({ x, length, axis }, { inverse, onesided, $default }, [out]) => {
    const rank = x.dims.length;
    const at = normalizeAxis(axis ? Number(axis.data[0]) : $default, rank, "DFT");
    const [size, kind, half] = [x.dims[at]!, x.dims[rank - 1]!, onesided !== 0 && inverse !== 0];
    const n = length ? Number(length.data[0]) : half ? 2 * (size - 1) : size;
    const [strides, outStrides] = [rowMajor(x.dims), rowMajor(out!.dims)];
    const data = elements(out!.dtype, sizeOf(out!.dims)) as Float64Array;
    const outer = out!.dims.with(at, 1).with(rank - 1, 1);
    for (let row = 0; row < sizeOf(outer); row++) {
      const place = (of: readonly number[]): number =>
        rowMajor(outer).reduce((sum, stride, k) => sum + (Math.floor(row / stride) % outer[k]!) * of[k]!, 0);
      const [from, to] = [place(strides), place(outStrides)];
      const read = (i: number, part: number): number => {
        // The other half of a spectrum of real numbers mirrors the first.
        const mirrored = half && i >= size ? n - i : i;
        const value = mirrored < size && part < kind ? (x.data[from + mirrored * strides[at]! + part] as number) : 0;
        return mirrored !== i && part === 1 ? -value : value;
      };
      for (let k = 0; k < out!.dims[at]!; k++) {
        let [re, im] = [0, 0];
        for (let i = 0; i < n; i++) {
          const angle = ((inverse ? 2 : -2) * Math.PI * ((i * k) % n)) / n;
          re += read(i, 0) * Math.cos(angle) - read(i, 1) * Math.sin(angle);
          im += read(i, 0) * Math.sin(angle) + read(i, 1) * Math.cos(angle);
        }
        const scale = inverse ? 1 / n : 1;
        data[to + k * outStrides[at]!] = roundTo(out!.dtype, re * scale);
        if (!half) {
          data[to + k * outStrides[at]! + 1] = roundTo(out!.dtype, im * scale);
        }
      }
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, length, axis }, { inverse, onesided, $default }) => {
    const rank = x.dims!.length;
    const at = normalizeAxis(g.numbers(axis)?.[0] ?? $default, rank, g.what);
    const half = onesided !== 0 && inverse !== 0;
    const size = x.dims![at] as number;
    const n = g.numbers(length)?.[0] ?? (half ? 2 * (size - 1) : size);
    const wanted = half ? Math.floor(n / 2) + 1 : n;
    const cut = size > wanted ? g.slice(x, at, 0, wanted) : x;
    const missing = wanted - (cut.dims![at] as number);
    const fit = missing > 0 ? g.call("Pad", [cut, g.list(0, missing), undefined, g.list(at)]) : cut;
    const last = [...Array.from({ length: rank - 1 }, (_, i) => i).filter((i) => i !== at), at];
    const rows = (part: Value): Value => {
      const turned = g.transpose(part, last);
      return g.cast(g.reshape(turned, [sizeOf(turned.dims!.slice(0, -1) as number[]), wanted]), "float32");
    };
    const parts = partsOf(g, fit);
    let source: Complex = { re: rows(parts.re), im: parts.im && rows(parts.im) };
    if (half) {
      source = mirrored(g, source, n);
    }
    const columns = onesided && !inverse ? Math.floor(n / 2) + 1 : n;
    const found = transform(g, source, columns, inverse ? 1 : -1, inverse ? 1 / n : 1);
    const back = (part: Value): Value => {
      const outer = last.slice(0, -1).map((i) => x.dims![i] as number);
      const perm = Array.from({ length: rank - 1 }, (_, i) => last.indexOf(i));
      return g.cast(g.transpose(g.reshape(part, [...outer, columns]), perm), x.dtype!);
    };
    return [joined(g, half ? [back(found.re)] : [back(found.re), back(found.im!)])];
  },
  tolerance,
  samples: () => [
    sample("real", { x: noise([2, 12, 1]) }),
    sample("complex, first axis, inverse", { x: noise([5, 3, 2]), axis: scalar(0, "int64") }, { attributes: { inverse: 1 } }),
    sample("one side, padded to a length", { x: noise([2, 10, 1]), length: scalar(16, "int64") }, { attributes: { onesided: 1 } }),
    sample("back from one side", { x: noise([1, 6, 2]) }, { attributes: { onesided: 1, inverse: 1 } }),
    sample("in two steps", { x: noise([2, 600, 1], 3) }),
    sample("in two steps, complex, one side", { x: noise([1, 512, 1], 4) }, { attributes: { onesided: 1 } }),
    rejects("the axis of the parts", { x: noise([4, 2]), axis: scalar(-1, "int64") }, 100021, /no axis to transform/),
  ],
});

/** The whole spectrum of real numbers from its first half. */
function mirrored(g: Expansion, { re, im }: Complex, n: number): Complex {
  const kept = re.dims![1] as number;
  const rest = n - kept;
  const whole = (part: Value, negative: boolean): Value => {
    if (rest <= 0) {
      return part;
    }
    // Elements rest, rest - 1, ..., 1.
    const turned = g.call("Slice", [part, g.list(rest), g.list(0), g.list(1), g.list(-1)]);
    return g.call("Concat", [part, negative ? g.call("Neg", [turned]) : turned], { axis: 1 });
  };
  return { re: whole(re, false), im: im && whole(im, true) };
}

export const STFT = defineOp({
  names: { onnx: ["STFT", 17] },
  inputs: ["signal", "step", "window?", "length?"],
  attributes: { onesided: int(1) },
  needs: ["step", "length"],
  infer: ({ signal, step, window, length }, { onesided }, { node }) => {
    requireDtype(signal.dtype, "float", node);
    const [hop, given] = [numbersOf(step, "frame_step", node)![0]!, numbersOf(length, "frame_length", node)?.[0]];
    const size = given ?? Number(window?.dims[0]);
    const [batch, total, kind] = signal.dims;
    if (
      !(size > 0) ||
      size > Number(total) ||
      !(hop > 0) ||
      signal.dims.length !== 3 ||
      (kind !== 1 && kind !== 2) ||
      (window && Number(window.dims[0]) !== size)
    ) {
      throw shapeError(`${node}: frames of ${size} every ${hop} of [${signal.dims}] with a window of [${window?.dims ?? "nothing"}] do not fit`);
    }
    return [{ dtype: signal.dtype, dims: [batch!, 1 + Math.floor((Number(total) - size) / hop), onesided ? Math.floor(size / 2) + 1 : size, 2] }];
  },
  reference: ({ signal, step, window, length }, _, [out]) => {
    const [, total, kind] = signal.dims as [number, number, number];
    const [batch, frames, bins] = out!.dims as [number, number, number];
    const size = length ? Number(length.data[0]) : window!.dims[0]!;
    const hop = Number(step.data[0]);
    const data = elements(out!.dtype, sizeOf(out!.dims)) as Float64Array;
    for (let at = 0; at < batch * frames * bins; at++) {
      const [k, frame, b] = [at % bins, Math.floor(at / bins) % frames, Math.floor(at / bins / frames)];
      for (let i = 0; i < size; i++) {
        const angle = (-2 * Math.PI * ((i * k) % size)) / size;
        const factor = window ? (window.data[i] as number) : 1;
        const place = (b * total + frame * hop + i) * kind;
        const [re, im] = [factor * (signal.data[place] as number), kind === 2 ? factor * (signal.data[place + 1] as number) : 0];
        data[2 * at]! += re * Math.cos(angle) - im * Math.sin(angle);
        data[2 * at + 1]! += re * Math.sin(angle) + im * Math.cos(angle);
      }
    }
    return [{ ...out!, data: data.map((value) => roundTo(out!.dtype, value)) }];
  },
  expand: (g, { signal, step, window, length }, { onesided }) => {
    const [batch, total] = signal.dims as [number, number];
    const hop = g.numbers(step)![0]!;
    const size = g.numbers(length)?.[0] ?? (window!.dims![0] as number);
    const frames = 1 + Math.floor((total - size) / hop);
    const places = g.constant(
      "int64",
      [frames, size],
      Array.from({ length: frames * size }, (_, at) => Math.floor(at / size) * hop + (at % size)),
    );
    const rows = (part: Value): Value => {
      const framed = g.call("Gather", [g.cast(part, "float32"), places], { axis: 1 });
      return g.reshape(window ? g.call("Mul", [framed, g.cast(window, "float32")]) : framed, [batch * frames, size]);
    };
    const { re, im } = partsOf(g, signal);
    const bins = onesided ? Math.floor(size / 2) + 1 : size;
    const found = transform(g, { re: rows(re), im: im && rows(im) }, bins, -1, 1);
    return [
      g.cast(
        joined(
          g,
          [found.re, found.im!].map((part) => g.reshape(part, [batch, frames, bins])),
        ),
        signal.dtype!,
      ),
    ];
  },
  tolerance,
  samples: () => [
    sample("window", {
      signal: noise([2, 40, 1]),
      step: scalar(5, "int64"),
      window: fixed(values("float32", [8], [0, 0.2, 0.6, 1, 1, 0.6, 0.2, 0])),
    }),
    sample(
      "both sides, no window",
      { signal: noise([1, 30, 1]), step: scalar(10, "int64"), length: scalar(10, "int64") },
      { attributes: { onesided: 0 } },
    ),
    rejects("no frame", { signal: ramp([1, 30, 1]), step: scalar(0, "int64"), length: scalar(4, "int64") }, 100021, /do not fit/),
    rejects(
      "a step computed at run time",
      { signal: ramp([1, 30, 1]), step: values("int64", [], [3]), length: axesOf(4) },
      100024,
      /computed at run time/,
    ),
  ],
});
