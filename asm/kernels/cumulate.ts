/**
 * CUMULATE: running sums or products along the innermost dim. One tile = a run of rows; a row is folded in order, so every element has one value.
 * f32 rows are summed in f64 and rounded at each store.
 */
import { Dtype, Instruction } from "../abi/program";
import { addressOf, dim, dtypeOf, offsetAt, rank, record, stride } from "./view";

@inline
function fold<T, A>(target: usize, step: i32, source: usize, sourceStep: i32, count: u32, product: bool, exclusive: bool): void {
  let total: A = product ? <A>1 : <A>0;
  for (let i: u32 = 0; i < count; i++) {
    const x = <A>load<T>(source);
    const next = product ? total * x : total + x;
    let out = <T>(exclusive ? total : next);
    if (isFloat<T>() && out != out) out = <T>NaN;
    store<T>(target, out);
    total = next;
    target += step;
    source += sourceStep;
  }
}

/** T0 and T1 [rows..., n] of one type; P0 rows per tile, P1 1 = products, P2 1 = each element leaves itself out. */
export function runCumulate(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const product = load<u32>(instruction, Instruction.P1) != 0, exclusive = load<u32>(instruction, Instruction.P2) != 0;
  const outer = rank(target) - 1, count = dim(target, outer), perTile = load<u32>(instruction, Instruction.P0);
  let rows: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(target, i);
  const to = min<u32>(tile * perTile + perTile, rows);
  const step = stride(target, outer), sourceStep = stride(source, outer), dtype = dtypeOf(target);
  for (let row = tile * perTile; row < to; row++) {
    const t = addressOf(target, frame) + offsetAt(target, outer, row), s = addressOf(source, frame) + offsetAt(source, outer, row);
    switch (<i32>dtype) {
      case Dtype.FLOAT32: fold<f32, f64>(t, step, s, sourceStep, count, product, exclusive); break;
      case Dtype.FLOAT64: fold<f64, f64>(t, step, s, sourceStep, count, product, exclusive); break;
      case Dtype.INT32: case Dtype.UINT32: fold<i32, i32>(t, step, s, sourceStep, count, product, exclusive); break;
      case Dtype.INT64: case Dtype.UINT64: fold<i64, i64>(t, step, s, sourceStep, count, product, exclusive); break;
      default: unreachable();
    }
  }
}
