/**
 * Convolutions of 8-bit integers, exactly, in float32, as products of them are (integer-product.ts): whole numbers below 2^24 are exact in it in whatever order
 * they are summed. Where a sum may become larger, it is made of parts that do not, which are added in int32.
 */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "../graph/dtype";
import type { Value } from "../graph/ir";
import { decode, sizeOf, type Tensor } from "../graph/tensor";
import type { Expansion } from "./expansion";

/** Whole numbers up to it are exact in float32, in whatever order they are summed. */
const EXACT = 2 ** 24;

/** Greatest distance of an 8-bit element from its zero point; `points` undefined: it may be any. */
function reach(dtype: DtypeName, points: readonly number[] | undefined): number {
  const [low, high] = dtype === "int8" ? [-128, 127] : [0, 255];
  return (points ?? [low, high]).reduce((most, point) => Math.max(most, point - low, high - point), 1);
}

const numbers = ({ data }: Tensor): number[] => Array.from(data as ArrayLike<number | bigint>, Number);
const pointsOf = (zero: Value | undefined): readonly number[] | undefined => (!zero ? [0] : zero.constant && numbers(decode(zero.constant)));

/** `of` less its zero point, in float32; nothing is done for a zero point of 0. */
function moved(g: Expansion, of: Value, zero: Value | undefined, dims: readonly number[]): Value {
  const wide = g.cast(of, "float32");
  const nothing = !zero || (zero.constant && numbers(decode(zero.constant)).every((z) => z === 0));
  return nothing ? wide : g.call("Sub", [wide, g.reshape(g.cast(zero, "float32"), dims)]);
}

/** The convolution of (x - x0) and (w - w0) in int32; a zero point of w may be one for each filter. Where sums are too large, x goes in digits. */
export function wholeConv(g: Expansion, x: Value, w: Value, x0: Value | undefined, w0: Value | undefined, attributes: object): Value {
  const perFilter = w0 && sizeOf(w0.dims as number[]) > 1;
  const weights = moved(g, w, w0, perFilter ? [w0.dims![0] as number, ...w.dims!.slice(1).map(() => 1)] : []);
  const source = moved(g, x, x0, []);
  const taps = sizeOf(w.dims!.slice(1) as number[]);
  const known = weights.constant && numbers(decode(weights.constant));
  const sums =
    known && Array.from({ length: w.dims![0] as number }, (_, m) => known.slice(m * taps, (m + 1) * taps).reduce((sum, v) => sum + Math.abs(v), 0));
  const largest = sums ? sums.reduce((a, b) => Math.max(a, b), 1) : taps * reach(w.dtype!, pointsOf(w0));
  const conv = (of: Value): Value => g.cast(g.call("Conv", [of, weights], attributes as never), "int32");
  // Digits of a base whose sums are exact, the lowest first; rounded down, also below zero, a digit is 0 to base - 1.
  const base = 2 ** Math.floor(Math.log2((EXACT - 1) / largest));
  if (base < 2) {
    throw new AclError(100024, `${g.what}: ${taps} products of 8-bit integers are more than one sum can have`);
  }
  const scaled = (sum: Value, by: number): Value => (by === 1 ? sum : g.call("Mul", [sum, g.scalar(by, "int32")]));
  let [rest, most, scale] = [source, reach(x.dtype!, pointsOf(x0)), 1];
  const parts: Value[] = [];
  for (; most * largest >= EXACT; most = Math.ceil(most / base), scale *= base) {
    const high = g.call("Floor", [g.call("Div", [rest, g.scalar(base)])]);
    parts.push(scaled(conv(g.call("Sub", [rest, g.call("Mul", [high, g.scalar(base)])])), scale));
    rest = high;
  }
  return [...parts, scaled(conv(rest), scale)].reduce((sum, part) => g.call("Add", [sum, part]));
}
