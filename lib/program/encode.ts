/** ProgramPlan -> image (asm/abi/program.ts): the only writer of that format. */
import { ABI_VERSION } from "../../asm/abi/device";
import { Opcode } from "../../asm/abi/isa";
import { Instruction as Record, Program, PROGRAM_MAGIC, Region } from "../../asm/abi/program";
import { Binding } from "../../asm/abi/stream";
import { Probe } from "../../asm/abi/task";
import { AclError } from "../errors/acl-error";
import { encodeAttention } from "./encode-attention";
import { encodeCopy, encodeMap, encodeReduce } from "./encode-copy";
import { encodeMatmulInteger, encodePackInteger } from "./encode-integer";
import { encodeConv, encodeMatmul, encodePool } from "./encode-matrix";
import { encodePlanes } from "./encode-planes";
import { encodeNorm, encodeSoftmax } from "./encode-rows";
import { encodeCumulate, encodeGatherElements, encodeScatterElements, encodeTopK } from "./encode-elements";
import { encodeGather } from "./encode-gather";
import { encodeRnn } from "./encode-rnn";
import { encodeGridSample, encodeRoiAlign } from "./encode-sample";
import type { Encoded } from "./encoded";
import { type Build, BUILDS, USUAL_BUILD } from "./costs";
import { TensorTable } from "./tensor-table";
import type { Instruction, ProgramPlan } from "./types";

export interface EncodedProgram {
  readonly image: Uint8Array;
  /** Estimate for one run on one core. */
  readonly costNs: number;
  readonly instructionCount: number;
  readonly regionCount: number;
}

interface Item extends Encoded {
  readonly node: string;
}

const CONTROL: ReadonlySet<Instruction["op"]> = new Set(["branch", "loop", "call", "return"]);

function encodeControl(instruction: Instruction, table: TensorTable, regions: number): Encoded {
  const control = { tiles: 0, costNs: 100 };
  if (instruction.op === "return") return { op: Opcode.RETURN, ...control };
  if (instruction.op !== "branch" && instruction.op !== "loop" && instruction.op !== "call")
    throw new AclError(500000, `${instruction.op} is no control instruction`);
  const { to, node } = instruction;
  // A target one past the end retires the run.
  if (!Number.isInteger(to) || to < 0 || to > regions) throw new AclError(100000, `node "${node}": ${instruction.op} to region ${to} of ${regions}`);
  if (instruction.op === "call") return { op: Opcode.CALL, ...control, params: [to] };
  if (instruction.op === "branch") {
    const { condition } = instruction;
    if (!condition) return { op: Opcode.BRANCH, ...control, params: [to], flags: 1 };
    return { op: Opcode.BRANCH, ...control, operands: [table.add(condition)], params: [to] };
  }
  const operands = [instruction.trip, instruction.counter, ...(instruction.condition ? [instruction.condition] : [])].map((view) => table.add(view));
  return { op: Opcode.LOOP, ...control, operands, params: [to, instruction.condition ? 1 : 0] };
}

function encodeProbe(instruction: Extract<Instruction, { op: "probe" }>, table: TensorTable): Encoded {
  const probe = Probe[instruction.probe.toUpperCase() as keyof typeof Probe];
  if (probe === undefined) throw new AclError(100000, `node "${instruction.node}": there is no probe "${instruction.probe}"`);
  const operands = instruction.target ? [table.add(instruction.target)] : [];
  return { op: Opcode.PROBE, tiles: Math.max(1, instruction.tiles), costNs: 1000, operands, params: [probe, instruction.argument] };
}

function encodeInstruction(instruction: Instruction, table: TensorTable, regions: number, build: Build): Encoded {
  switch (instruction.op) {
    case "copy":
      return encodeCopy(instruction, table);
    case "map":
      return encodeMap(instruction, table);
    case "reduce":
      return encodeReduce(instruction, table);
    case "matmul":
      return encodeMatmul(instruction, table, build);
    case "matmul_integer":
      return encodeMatmulInteger(instruction, table, build);
    case "pack_integer":
      return encodePackInteger(instruction, table, build);
    case "conv":
      return instruction.form === "planes" ? encodePlanes(instruction, table, build) : encodeConv(instruction, table, build);
    case "pool":
      return encodePool(instruction, table);
    case "softmax":
      return encodeSoftmax(instruction, table);
    case "norm":
      return encodeNorm(instruction, table);
    case "attention":
      return encodeAttention(instruction, table, build);
    case "gather":
      return encodeGather(instruction, table);
    case "gather_elements":
      return encodeGatherElements(instruction, table);
    case "scatter_elements":
      return encodeScatterElements(instruction, table);
    case "top_k":
      return encodeTopK(instruction, table);
    case "cumulate":
      return encodeCumulate(instruction, table);
    case "grid_sample":
      return encodeGridSample(instruction, table);
    case "roi_align":
      return encodeRoiAlign(instruction, table);
    case "rnn":
      return encodeRnn(instruction, table);
    case "probe":
      return encodeProbe(instruction, table);
    default:
      return encodeControl(instruction, table, regions);
  }
}

/** A region without instructions keeps its place in the numbering: one NOP. */
const NOTHING: Item = { op: Opcode.NOP, tiles: 1, costNs: 0, node: "" };

/** Longest costs are kept apart from 0 and from the field's width. */
const costField = (ns: number): number => Math.min(0xffffffff, Math.max(1, Math.round(ns)));

class Sections {
  readonly #blocks: Uint8Array[] = [];
  readonly #known = new Map<string, number>();
  bytes = 0;

  /** Offset of a block from the start of the section; equal blocks are stored once. */
  add(block: Uint8Array): number {
    const key = Buffer.from(block.buffer, block.byteOffset, block.length).toString("latin1");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const at = this.bytes;
    this.#blocks.push(block);
    this.#known.set(key, at);
    this.bytes += Math.ceil(block.length / 16) * 16;
    return at;
  }

  writeTo(image: Uint8Array, start: number): void {
    let at = start;
    for (const block of this.#blocks) {
      image.set(block, at);
      at += Math.ceil(block.length / 16) * 16;
    }
  }
}

/** Node names: count, offset of each from the start of the section and one past the last, then UTF-8. */
function debugSection(names: readonly string[]): Uint8Array {
  const texts = names.map((name) => new TextEncoder().encode(name));
  const head = 4 * (names.length + 2);
  const bytes = new Uint8Array(head + texts.reduce((total, text) => total + text.length, 0));
  const out = new DataView(bytes.buffer);
  out.setUint32(0, names.length, true);
  let at = head;
  for (const [i, text] of texts.entries()) {
    out.setUint32(4 + i * 4, at, true);
    bytes.set(text, at);
    at += text.length;
  }
  out.setUint32(4 + names.length * 4, at, true);
  return bytes;
}

function writeInstruction(out: DataView, at: number, item: Item, node: number, blocks: number, geometry: number): void {
  out.setUint8(at + Record.OP, item.op);
  out.setUint8(at + Record.FLAGS, item.flags ?? 0);
  out.setUint8(at + Record.OPERANDS, item.operands?.length ?? 0);
  out.setUint32(at + Record.TILES, item.tiles, true);
  out.setUint32(at + Record.NODE, node, true);
  out.setUint32(at + Record.BLOCK, blocks, true);
  for (const [i, operand] of (item.operands ?? []).entries()) out.setUint32(at + Record.T0 + i * 4, operand, true);
  for (const [i, param] of (item.params ?? []).entries()) out.setUint32(at + Record.P0 + i * 4, param, true);
  if (geometry) out.setUint32(at + Record.P0, geometry, true);
}

function encodeRegions(plan: ProgramPlan, table: TensorTable, build: Build): Item[][] {
  return plan.regions.map((region, index) => {
    if (region.length > 1 && region.some(({ op }) => CONTROL.has(op))) {
      throw new AclError(100000, `region ${index}: a control instruction must have its region to itself`);
    }
    if (region.length === 0) return [NOTHING];
    const items = region.map((instruction) => ({ ...encodeInstruction(instruction, table, plan.regions.length, build), node: instruction.node }));
    // Longest tiles first: the last ones to be claimed are short, and the cores end together.
    return items.sort((a, b) => b.costNs / b.tiles - a.costNs / a.tiles);
  });
}

const align = (bytes: number, to: number): number => Math.ceil(bytes / to) * to;

/** The region table; returns the cost of all regions. */
function writeRegions(out: DataView, regionsAt: number, regions: readonly (readonly Item[])[]): number {
  let first = 0;
  let costNs = 0;
  for (const [i, region] of regions.entries()) {
    const cost = region.reduce((total, item) => total + item.costNs, 0);
    costNs += cost;
    const at = regionsAt + i * Region.SIZE;
    out.setUint32(at + Region.FIRST, first, true);
    out.setUint32(at + Region.COUNT, region.length, true);
    out.setUint32(
      at + Region.TILES,
      region.reduce((total, item) => total + item.tiles, 0),
      true,
    );
    out.setUint32(at + Region.COST_NS, costField(cost), true);
    first += region.length;
  }
  return costNs;
}

export function encode(plan: ProgramPlan): EncodedProgram {
  const table = new TensorTable(plan.inputs);
  const build = BUILDS[plan.build ?? USUAL_BUILD];
  const regions = encodeRegions(plan, table, build);
  const items = regions.flat();
  const names = [...new Set(items.map(({ node }) => node))];
  const sections = new Sections();
  const placed = items.map((item) => ({
    item,
    block: item.block && sections.add(item.block),
    geometry: item.geometry && sections.add(item.geometry),
  }));
  const debug = debugSection(names);
  const tensors = Program.SIZE;
  const regionsAt = tensors + table.count * 64;
  const instructions = align(regionsAt + regions.length * Region.SIZE, 64);
  const strips = instructions + items.length * Record.SIZE;
  const debugAt = strips + sections.bytes;
  const bytes = align(debugAt + debug.length, 64);
  const image = new Uint8Array(bytes);
  const out = new DataView(image.buffer);
  const header: [number, number][] = [
    [Program.MAGIC, PROGRAM_MAGIC],
    [Program.VERSION, ABI_VERSION],
    [Program.BYTES, bytes],
    [Program.TENSORS, tensors],
    [Program.TENSOR_COUNT, table.count],
    [Program.REGIONS, regionsAt],
    [Program.REGION_COUNT, regions.length],
    [Program.INSTRUCTIONS, instructions],
    [Program.INSTRUCTION_COUNT, items.length],
    [Program.STRIPS, strips],
    [Program.STRIPS_BYTES, sections.bytes],
    [Program.DEBUG, debugAt],
    [Program.DEBUG_BYTES, debug.length],
    [Program.BINDINGS, Binding.FIRST_INPUT + plan.inputs + plan.outputs],
    [Program.ARENA_BYTES, plan.arenaBytes],
    [Program.FLAGS, build.panel],
  ];
  for (const [at, value] of header) out.setUint32(at, value, true);
  image.set(table.bytes(), tensors);
  const costNs = writeRegions(out, regionsAt, regions);
  for (const [i, { item, block, geometry }] of placed.entries()) {
    const at = instructions + i * Record.SIZE;
    writeInstruction(
      out,
      at,
      item,
      names.indexOf(item.node),
      block === undefined ? 0 : strips + block,
      geometry === undefined ? 0 : strips + geometry,
    );
  }
  sections.writeTo(image, strips);
  image.set(debug, debugAt);
  return { image, costNs: Math.round(costNs), instructionCount: items.length, regionCount: regions.length };
}
