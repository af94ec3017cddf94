/**
 * RNN: the recurrence of LSTM, GRU and simple RNN layers; the products of all inputs are one MATMUL before it. One tile = P3 sequences of the batch.
 * Gates lie in scratch with their length rounded up to GATE_BLOCK; padding lanes hold numbers that nobody reads.
 * Sums run over the hidden state in order, so results do not depend on the number of cores.
 */
import { Instruction } from "../abi/program";
import { GATE_BLOCK, RnnKind } from "../abi/isa";
import { canonicalF32 } from "../micro/load";
import { sigmoid4, tanh4 } from "../micro/vector";
import { addressOf, dim, record, stride } from "./view";

/** Core-local: the sequence at hand. Bytes of one gate, without its padding to whole vectors of 16 and with all of it; its buffers in scratch. */
let hidden: u32 = 0;
let used: usize = 0;
let pitch: usize = 0;
let gates: usize = 0;
let h: usize = 0;
let c: usize = 0;
let spare: usize = 0;

/** out += vector x panels for one gate. Panels are [column block][row][GATE_BLOCK]. */
function addProduct(out: usize, vector: usize, panels: usize): void {
  const end = vector + (<usize>hidden << 2);
  for (let at: usize = 0; at < pitch; at += 64) {
    const place = out + at;
    let s0 = v128.load(place), s1 = v128.load(place, 16), s2 = v128.load(place, 32), s3 = v128.load(place, 48);
    for (let p = vector; p < end; p += 4, panels += 64) {
      const x = v128.load32_splat(p);
      s0 = f32x4.add(s0, f32x4.mul(x, v128.load(panels)));
      s1 = f32x4.add(s1, f32x4.mul(x, v128.load(panels, 16)));
      s2 = f32x4.add(s2, f32x4.mul(x, v128.load(panels, 32)));
      s3 = f32x4.add(s3, f32x4.mul(x, v128.load(panels, 48)));
    }
    v128.store(place, s0);
    v128.store(place, s1, 16);
    v128.store(place, s2, 32);
    v128.store(place, s3, 48);
  }
}

@inline
function gate(index: u32): usize {
  return gates + <usize>index * pitch;
}

/** Gates i, o, f, c in that order; `peepholes` are those of i, o, f, or 0. */
function stepLstm(panels: usize, panelBytes: usize, peepholes: usize): void {
  for (let g: u32 = 0; g < 4; g++) addProduct(gate(g), h, panels + <usize>g * panelBytes);
  const i = gate(0), o = gate(1), f = gate(2), z = gate(3);
  for (let at: usize = 0; at < used; at += 16) {
    let before = v128.load(c + at);
    let a = v128.load(i + at), b = v128.load(o + at), d = v128.load(f + at);
    if (peepholes) {
      a = f32x4.add(a, f32x4.mul(v128.load(peepholes + at), before));
      d = f32x4.add(d, f32x4.mul(v128.load(peepholes + 2 * pitch + at), before));
    }
    const cell = f32x4.add(f32x4.mul(sigmoid4(d), before), f32x4.mul(sigmoid4(a), tanh4(v128.load(z + at))));
    if (peepholes) b = f32x4.add(b, f32x4.mul(v128.load(peepholes + pitch + at), cell));
    v128.store(c + at, cell);
    v128.store(h + at, f32x4.mul(sigmoid4(b), tanh4(cell)));
  }
}

/** Gates z, r, h. With `bias` the reset gate scales the product of the state (linear_before_reset), else the state itself. */
function stepGru(panels: usize, panelBytes: usize, resetAfter: bool, bias: usize): void {
  addProduct(gate(0), h, panels);
  addProduct(gate(1), h, panels + panelBytes);
  const z = gate(0), r = gate(1), n = gate(2);
  if (resetAfter) {
    copyVectors(spare, bias, pitch);
    addProduct(spare, h, panels + 2 * panelBytes);
    for (let at: usize = 0; at < used; at += 16) {
      v128.store(n + at, f32x4.add(v128.load(n + at), f32x4.mul(sigmoid4(v128.load(r + at)), v128.load(spare + at))));
    }
  } else {
    for (let at: usize = 0; at < used; at += 16) v128.store(spare + at, f32x4.mul(sigmoid4(v128.load(r + at)), v128.load(h + at)));
    addProduct(n, spare, panels + 2 * panelBytes);
  }
  for (let at: usize = 0; at < used; at += 16) {
    const keep = sigmoid4(v128.load(z + at));
    const fresh = tanh4(v128.load(n + at));
    v128.store(h + at, f32x4.add(f32x4.mul(f32x4.sub(f32x4.splat(1), keep), fresh), f32x4.mul(keep, v128.load(h + at))));
  }
}

function stepSimple(panels: usize, rectified: bool): void {
  const g = gate(0);
  addProduct(g, h, panels);
  for (let at: usize = 0; at < used; at += 16) {
    const x = v128.load(g + at);
    v128.store(h + at, rectified ? f32x4.max(x, f32x4.splat(0)) : tanh4(x));
  }
}

/** A call of memory.copy takes longer than the rows of a small layer. */
function copyVectors(target: usize, source: usize, bytes: usize): void {
  let at: usize = 0;
  for (; at + 16 <= bytes; at += 16) v128.store(target + at, v128.load(source + at));
  for (; at < bytes; at += 4) store<u32>(target + at, load<u32>(source + at));
}

/** Rows of `count` gates of HIDDEN numbers each -> padded rows at `target`. */
function spreadGates(target: usize, source: usize, count: u32): void {
  const bytes = <usize>hidden << 2;
  for (let g: usize = 0; g < <usize>count; g++) copyVectors(target + g * pitch, source + g * bytes, bytes);
}

function step(kind: u32, panels: usize, extra: usize): void {
  const panelBytes = (pitch >> 2) * (<usize>hidden << 2);
  switch (<i32>kind) {
    case RnnKind.LSTM: stepLstm(panels, panelBytes, extra); break;
    case RnnKind.GRU: stepGru(panels, panelBytes, false, 0); break;
    case RnnKind.GRU_RESET_AFTER: stepGru(panels, panelBytes, true, extra); break;
    default: stepSimple(panels, kind == RnnKind.RELU);
  }
}

export function runRnn(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const kind = load<u32>(instruction, Instruction.P0), gateCount = load<u32>(instruction, Instruction.P1);
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const state = record(program, load<u32>(instruction, Instruction.T3)), cell = record(program, load<u32>(instruction, Instruction.T4));
  const perTile = load<u32>(instruction, Instruction.P3);
  const first = tile * perTile, end = min<u32>(first + perTile, dim(target, 1));
  const steps = dim(target, 0);
  hidden = dim(target, 2);
  const bytes = <usize>hidden << 2;
  used = (bytes + 15) & ~15;
  pitch = <usize>((hidden + GATE_BLOCK - 1) / GATE_BLOCK * GATE_BLOCK) << 2;
  gates = scratch;
  h = gates + <usize>gateCount * pitch;
  c = h + pitch;
  spare = c + pitch;
  const more = load<u32>(instruction, Instruction.P2);
  const extra: usize = more ? spare + pitch : 0;
  memory.fill(scratch, 0, <usize>(gateCount + 6) * pitch);
  if (more) spreadGates(extra, addressOf(record(program, load<u32>(instruction, Instruction.T5)), frame), more);
  const panels = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const rows = addressOf(source, frame), results = addressOf(target, frame);
  for (let sequence = <i32>first; sequence < <i32>end; sequence++) {
    const place = addressOf(state, frame) + sequence * stride(state, 0), cellPlace = addressOf(cell, frame) + sequence * stride(cell, 0);
    copyVectors(h, place, bytes);
    if (kind == RnnKind.LSTM) copyVectors(c, cellPlace, bytes);
    for (let time: i32 = 0; time < <i32>steps; time++) {
      spreadGates(gates, rows + time * stride(source, 0) + sequence * stride(source, 1), gateCount);
      step(kind, panels, extra);
      const row = results + time * stride(target, 0) + sequence * stride(target, 1);
      copyVectors(row, h, bytes);
      canonicalF32(row, hidden);
    }
    copyVectors(place, h, bytes);
    canonicalF32(place, hidden);
    if (kind == RnnKind.LSTM) {
      copyVectors(cellPlace, c, bytes);
      canonicalF32(cellPlace, hidden);
    }
  }
}
