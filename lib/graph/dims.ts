/** Shapes whose dims may be names. A formula over an open dim is a name again, so inference never stops at it. */
import { AclError } from "../errors/acl-error";

/** A number, or a name (or formula) where the model leaves it open. */
export type Dim = number | string;

export const isConcrete = (dims: readonly Dim[]): dims is readonly number[] => dims.every((dim) => typeof dim === "number");

/** `f` of a dim; `text` writes the formula for an open one. */
export function mapDim(dim: Dim, f: (dim: number) => number, text: (dim: string) => string): Dim {
  return typeof dim === "number" ? f(dim) : text(dim);
}

export function product(dims: readonly Dim[]): Dim {
  const numbers = dims.filter((dim): dim is number => typeof dim === "number").reduce((a, b) => a * b, 1);
  const names = dims.filter((dim): dim is string => typeof dim === "string");
  if (names.length === 0 || numbers === 0) {
    return numbers;
  }
  return [...(numbers === 1 ? [] : [String(numbers)]), ...names].join("*");
}

export function sum(dims: readonly Dim[]): Dim {
  const numbers = dims.filter((dim): dim is number => typeof dim === "number").reduce((a, b) => a + b, 0);
  const names = dims.filter((dim): dim is string => typeof dim === "string");
  return names.length === 0 ? numbers : [...names, ...(numbers === 0 ? [] : [String(numbers)])].join("+");
}

/** NumPy's broadcast of several shapes. An open dim is taken to equal whatever it meets, except 1. */
export function broadcast(shapes: readonly (readonly Dim[])[], what: string): Dim[] {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  const dims: Dim[] = [];
  for (let axis = 0; axis < rank; axis++) {
    let dim: Dim = 1;
    for (const shape of shapes) {
      const other = shape[shape.length - rank + axis] ?? 1;
      if (dim === 1) {
        dim = other;
      } else if (other !== 1 && other !== dim) {
        if (typeof other === "number" && typeof dim === "number") {
          throw shapeError(`${what}: shapes ${shapes.map(formatDims).join(" and ")} do not broadcast (axis ${axis}: ${dim} and ${other})`);
        }
        dim = typeof dim === "number" ? dim : other;
      }
    }
    dims.push(dim);
  }
  return dims;
}

/** Byte or element strides of a shape seen as the broadcast shape `to`: 0 where a dim is repeated. */
export function broadcastStrides(dims: readonly number[], strides: readonly number[], to: readonly number[]): number[] {
  const lead = to.length - dims.length;
  return to.map((_, axis) => (axis < lead || dims[axis - lead] === 1 ? 0 : strides[axis - lead]!));
}

/** Axis counted from the end if negative. */
export function normalizeAxis(axis: number, rank: number, what: string): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
    throw shapeError(`${what}: axis ${axis} is outside rank ${rank}`);
  }
  return axis < 0 ? axis + rank : axis;
}

export function formatDims(dims: readonly Dim[]): string {
  return `[${dims.join(",")}]`;
}

/** A model whose shapes do not fit together. */
export function shapeError(message: string): AclError {
  return new AclError(SHAPE_ERROR, message, { solution: "fix the model or the shapes of its inputs" });
}
export const SHAPE_ERROR = 100021;
