/** Einsum of one or two operands: views (a letter that comes twice is a diagonal), a product of matrices and a sum. */
import { type Dim, formatDims, shapeError } from "../graph/dims";
import { elements, isFloat, roundTo, rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, required, string } from "./define";
import { noise, rejects, sample } from "./sample";
import { permuteView, reshapeView } from "./views";

interface Equation {
  readonly inputs: readonly string[];
  readonly output: string;
}

/** Stand for the dims of "...", the last one for the last of them. */
const DOTS = "0123456789";

/** Letters of each operand; without an arrow the result has the dims of the dots and the letters that occur once, in order. */
function parse(equation: string, ranks: readonly number[], node: string): Equation {
  const [left = "", right] = equation.replaceAll(" ", "").split("->");
  const terms = left.split(",");
  const hidden = terms.map((term, i) => (term.includes("...") ? ranks[i]! - term.length + 3 : 0));
  const most = Math.max(0, ...hidden);
  const inputs = terms.map((term, i) => term.replace("...", DOTS.slice(most - hidden[i]!, most)));
  const letters = [...inputs.join("")];
  const once = [...new Set(letters)].filter((letter) => !DOTS.includes(letter) && letters.indexOf(letter) === letters.lastIndexOf(letter)).sort();
  const output = (right ?? `...${once.join("")}`).replace("...", DOTS.slice(0, most));
  const fits =
    inputs.length === ranks.length && most <= DOTS.length && inputs.every((term, i) => term.length === ranks[i] && /^[A-Za-z0-9]*$/.test(term));
  if (!fits || [...output].some((letter, i) => !letters.includes(letter) || output.indexOf(letter) !== i)) {
    throw shapeError(`${node}: equation "${equation}" does not fit operands of ${ranks.join(" and ")} dims`);
  }
  return { inputs, output };
}

/** Steps of a term's letters in memory, and its dims: a letter that comes twice walks a diagonal, a dim of 1 behind dots stands still. */
function stridesOf(term: string, dims: readonly number[], strides: readonly number[], letter: string): number {
  return [...term].reduce((sum, each, axis) => sum + (each === letter && !(DOTS.includes(each) && dims[axis] === 1) ? strides[axis]! : 0), 0);
}

function sizesOf({ inputs }: Equation, dims: readonly (readonly Dim[])[], node: string): Map<string, Dim> {
  const sizes = new Map<string, Dim>();
  inputs.forEach((term, i) =>
    [...term].forEach((letter, axis) => {
      const [known, dim] = [sizes.get(letter), dims[i]![axis]!];
      if (DOTS.includes(letter) && (known === 1 || dim === 1)) {
        sizes.set(letter, known === undefined || known === 1 ? dim : known);
        return;
      }
      if (typeof known === "number" && typeof dim === "number" && known !== dim) {
        throw shapeError(`${node}: "${letter}" is ${known} and ${dim} in ${dims.map(formatDims).join(" and ")}`);
      }
      sizes.set(letter, typeof known === "number" ? known : dim);
    }),
  );
  return sizes;
}

function reference(tensors: readonly Tensor[], equation: Equation, out: ConcreteType): Tensor {
  const sizes = sizesOf(
    equation,
    tensors.map(({ dims }) => dims),
    "Einsum",
  ) as Map<string, number>;
  const inner = [...sizes.keys()].filter((letter) => !equation.output.includes(letter));
  const letters = [...equation.output, ...inner];
  const dims = letters.map((letter) => sizes.get(letter)!);
  const strides = tensors.map((tensor, i) => {
    const own = rowMajor(tensor.dims);
    return letters.map((letter) => stridesOf(equation.inputs[i]!, tensor.dims, own, letter));
  });
  const offsets = strides.map((steps) => {
    const list = new Float64Array(sizeOf(dims));
    walk(dims, steps, (index, offset) => (list[index] = offset));
    return list;
  });
  const fold = sizeOf(dims.slice(equation.output.length));
  const data = elements(out.dtype, sizeOf(out.dims));
  for (let i = 0; i < data.length; i++) {
    let total = 0;
    for (let k = i * fold; k < (i + 1) * fold; k++) {
      total += tensors.reduce((product, tensor, t) => product * Number(tensor.data[offsets[t]![k]!]), 1);
    }
    data[i] = (data instanceof Float64Array ? roundTo(out.dtype, total) : BigInt(total)) as never;
  }
  return { ...out, data };
}

export const Einsum = defineOp({
  names: { onnx: ["Einsum", 12] },
  inputs: ["...inputs"],
  attributes: { equation: required(string()) },
  infer: ({ inputs }, { equation }, { node }) => {
    const ranks = inputs.map(({ dims }) => dims.length);
    const parsed = parse(equation, ranks, node);
    requireDtype(inputs[0]!.dtype, "number", node);
    const sizes = sizesOf(
      parsed,
      inputs.map(({ dims }) => dims),
      node,
    );
    return [{ dtype: inputs[0]!.dtype, dims: [...parsed.output].map((letter) => sizes.get(letter)!) }];
  },
  reference: ({ inputs }, { equation }, [out]) => [
    reference(
      inputs,
      parse(
        equation,
        inputs.map(({ dims }) => dims.length),
        "Einsum",
      ),
      out!,
    ),
  ],
  lower: (b, { inputs }, { equation }) => {
    const parsed = parse(
      equation,
      inputs.map(({ dims }) => dims.length),
      b.what,
    );
    if (inputs.length > 2) {
      b.unsupported(`equation "${equation}" is not supported; one or two operands are`);
    }
    if (!isFloat(inputs[0]!.dtype)) {
      b.unsupported(`Einsum of ${inputs[0]!.dtype} is not supported; cast to float32`);
    }
    const type = inputs[0]!.dtype === "float64" ? "float64" : "float32";
    const dims = inputs.map((input) => input.dims);
    const all = sizesOf(parsed, dims, b.what) as Map<string, number>;
    const terms = parsed.inputs.map((term) => [...new Set(term)]);
    const [left, right = ""] = terms.map((term) => term.join(""));
    const views = inputs.map((input, i): View => {
      const view = b.converted(input.view, type);
      const strides = terms[i]!.map((letter) => stridesOf(parsed.inputs[i]!, view.dims, view.strides, letter));
      return { ...view, dims: terms[i]!.map((letter) => all.get(letter)!), strides };
    });
    const { output } = parsed;
    const ordered = (view: View, term: string, letters: readonly string[]): View =>
      permuteView(
        view,
        letters.map((letter) => term.indexOf(letter)),
      );
    const summed = (view: View, term: string, other: string): [View, string] => {
      const gone = [...term].filter((letter) => !output.includes(letter) && !other.includes(letter));
      if (gone.length === 0) {
        return [view, term];
      }
      const rest = [...term].filter((letter) => !gone.includes(letter));
      const folded = b.temporary(
        type,
        rest.map((letter) => view.dims[term.indexOf(letter)]!),
      );
      b.reduce(
        "sum",
        folded,
        view,
        gone.map((letter) => term.indexOf(letter)).sort((x, y) => x - y),
      );
      return [folded, rest.join("")];
    };
    const [a, termA] = summed(views[0]!, left!, right);
    if (inputs.length === 1) {
      b.map(b.target(), [ordered(a, termA, [...output])], (_, value) => value!);
      return;
    }
    const [c, termC] = summed(views[1]!, right, left!);
    const batch = [...output].filter((letter) => termA.includes(letter) && termC.includes(letter));
    const rows = [...output].filter((letter) => termA.includes(letter) && !batch.includes(letter));
    const columns = [...output].filter((letter) => termC.includes(letter) && !batch.includes(letter));
    const inner = [...termA].filter((letter) => !output.includes(letter));
    const sizes = sizesOf({ inputs: [termA, termC], output }, [a.dims, c.dims], b.what) as Map<string, number>;
    const size = (letters: readonly string[]): number => sizeOf(letters.map((letter) => sizes.get(letter)!));
    const product = b.temporary(type, [size(batch), size(rows), size(columns)]);
    const matrix = (view: View, term: string, groups: readonly (readonly string[])[]): View =>
      reshapeView(b.arranged(ordered(view, term, groups.flat())), groups.map(size))!;
    b.matmul(product, matrix(a, termA, [batch, rows, inner]), matrix(c, termC, [batch, inner, columns]), false);
    const letters = [...batch, ...rows, ...columns];
    const spread = reshapeView(
      product,
      letters.map((letter) => sizes.get(letter)!),
    )!;
    b.map(b.target(), [ordered(spread, letters.join(""), [...output])], (_, value) => value!);
  },
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "f32 sums" },
  samples: () => [
    sample("matrices", { inputs: [noise([3, 4]), noise([4, 5], 2)] }, { attributes: { equation: "ij,jk->ik" as never } }),
    sample("batch, transposed", { inputs: [noise([2, 3, 4]), noise([2, 5, 4], 2)] }, { attributes: { equation: "bij,bkj->bki" as never } }),
    sample("sum of one", { inputs: [noise([3, 4, 2])] }, { attributes: { equation: "ijk->kj" as never } }),
    sample("heads", { inputs: [noise([2, 3, 4, 5]), noise([2, 6, 4, 5], 2)] }, { attributes: { equation: "bqhd,bkhd->bhqk" as never } }),
    sample("a diagonal behind dots", { inputs: [noise([2, 3, 4, 4])] }, { attributes: { equation: "...ii->...i" as never } }),
    sample("a trace", { inputs: [noise([4, 4])] }, { attributes: { equation: "ii" as never } }),
    sample(
      "dots that broadcast",
      { inputs: [noise([2, 1, 3, 4]), noise([5, 4, 2], 2)] },
      { attributes: { equation: "...ij,...jk->...ik" as never } },
    ),
    rejects("sizes that differ", { inputs: [noise([3, 4]), noise([5, 2])] }, 100021, /"j" is 4 and 5/, {
      attributes: { equation: "ij,jk->ik" as never },
    }),
  ],
});
