/** An image as text: bindings, regions, instructions with their views, strip programs. For people (inspect, faults) and for tests of the compiler. */
import { AttentionForm, Closing, ConvBlock, ConvMode, Fold, Merge, Opcode, PoolKind, ReduceMode, RnnKind, SampleMode } from "../../asm/abi/isa";
import { Program, Region } from "../../asm/abi/program";
import { Binding } from "../../asm/abi/stream";
import { OperandMode, SPLAT_BYTES, StripBlock, StripCode, StripOperand, StripOperation } from "../../asm/abi/strip";
import { Probe } from "../../asm/abi/task";
import { Image, type InstructionRecord } from "./image";
import type { StripOpName } from "./types";
import { arityOf, opOf, TYPE_NAMES } from "./strip-ops";
import { isContiguous } from "./views";

function bindingName(binding: number, inputs: number | undefined): string {
  if (binding === Binding.DATA) return "data";
  if (binding === Binding.ARENA) return "arena";
  const port = binding - Binding.FIRST_INPUT;
  if (inputs === undefined) return `port${port}`;
  return port < inputs ? `in${port}` : `out${port - inputs}`;
}

const lower = (name: string | undefined, code: number): string => name?.toLowerCase() ?? String(code);

/** A parameter that holds the bits of an f32. */
function floatOf(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits);
  return Number(view.getFloat32(0).toPrecision(6));
}

/** What an f32 product does to its sums (asm/abi/isa.ts, Closing). */
function closing(flags: number, greatest: number): string {
  const steps = [flags & Closing.BIAS && "bias", flags & Closing.RELU && "relu", flags & Closing.CAPPED && `at most ${floatOf(greatest)}`];
  const done = steps.filter(Boolean);
  return done.length > 0 ? ` with ${done.join(", ")}` : "";
}

class Disassembler {
  readonly #image: Image;

  constructor(
    bytes: Uint8Array,
    readonly inputs: number | undefined,
  ) {
    this.#image = new Image(bytes);
  }

  /** `arena+1024 float32[1, 24, 24, 8]`, with strides where the view is not dense. */
  #tensor(index: number): string {
    const tensor = this.#image.tensor(index);
    if (!tensor) return `tensor ${index}?`;
    const { binding, offset, dtype, dims, strides, elementBytes } = tensor;
    const dense = isContiguous(dims, strides, elementBytes) ? "" : ` by [${strides.join(", ")}]`;
    return `${bindingName(binding, this.inputs)}+${offset} ${dtype}[${dims.join(", ")}]${dense}`;
  }

  #constant(at: number, type: string): string {
    const { view } = this.#image;
    if (type === "f32") return String(view.getFloat32(at, true));
    if (type === "f64") return String(view.getFloat64(at, true));
    if (type === "i64") return String(view.getBigInt64(at, true));
    if (type === "u64") return String(view.getBigUint64(at, true));
    return String(type === "i32" ? view.getInt32(at, true) : view.getUint32(at, true));
  }

  #strip(at: number): string[] {
    const image = this.#image;
    const half = (field: number): number => image.view.getUint16(at + field, true);
    const [constants, registers, operands] = [half(StripBlock.CONSTANTS), half(StripBlock.REGISTERS), half(StripBlock.OPERANDS)];
    const lines = [`strip of ${image.u32(at + StripBlock.STEP)} over ${image.u32(at + StripBlock.ELEMENTS)} elements, ${registers} registers`];
    const operandsAt = at + StripBlock.SIZE + constants * SPLAT_BYTES;
    const stores: string[] = [];
    for (let i = 0; i < operands; i++) {
      const o = operandsAt + i * StripOperand.SIZE;
      const mode = image.view.getUint8(o + StripOperand.MODE);
      const register = `r${image.view.getUint8(o + StripOperand.REGISTER)}`;
      const type = TYPE_NAMES[image.view.getUint8(o + StripOperand.TYPE)];
      const what = mode === OperandMode.ACCUMULATOR ? "" : ` ${this.#tensor(image.u32(o + StripOperand.TENSOR))}`;
      const text = `${lower(OperandMode[mode], mode)}.${type}${what}`;
      if (mode < OperandMode.DIRECT) lines.push(`  ${register} = ${text}`);
      else stores.push(`  ${text} = ${register}`);
    }
    const operationsAt = operandsAt + operands * StripOperand.SIZE;
    for (let i = 0; i < half(StripBlock.OPERATIONS); i++) {
      const p = operationsAt + i * StripOperation.SIZE;
      const byte = (field: number): number => image.view.getUint8(p + field);
      const code = byte(StripOperation.CODE);
      const name = opOf(code) ?? String(code);
      const type = TYPE_NAMES[byte(StripOperation.TYPE)] ?? "?";
      const arity = code === StripCode.MOVE ? 1 : arityOf(name as StripOpName);
      const args = [StripOperation.A, StripOperation.B, StripOperation.C].slice(0, arity).map((field) => {
        const register = byte(field);
        return register < registers ? `r${register}` : this.#constant(at + StripBlock.SIZE + (register - registers) * SPLAT_BYTES, type);
      });
      lines.push(`  r${byte(StripOperation.TARGET)} = ${name}.${type} ${args.join(", ")}`);
    }
    return [...lines, ...stores];
  }

  #window(at: number): string {
    const triple = (field: number): string => [0, 4, 8].map((i) => this.#image.u32(at + field + i)).join("x");
    const [kernel, steps, dilations] = [triple(ConvBlock.KERNEL), triple(ConvBlock.STRIDES), triple(ConvBlock.DILATIONS)];
    return `kernel ${kernel} stride ${steps} dilation ${dilations} pads ${triple(ConvBlock.PADS)}..${triple(ConvBlock.PADS_END)}`;
  }

  #details(it: InstructionRecord): string {
    const [p0, p1, p2, p3, p4, p5] = it.params as [number, number, number, number, number, number];
    switch (it.op as Opcode) {
      case Opcode.COPY:
        return `tile ${p0} rows x ${p1}`;
      case Opcode.REDUCE:
        return `${lower(Fold[p0], p0)} of ${p5} by ${lower(ReduceMode[p4], p4)}, tile ${p2} rows`;
      case Opcode.MATMUL:
        return `k ${p2}${p3 ? " packed" : ""}, tile ${p4} x ${p0} x ${p1}${closing(it.flags, p5)}`;
      case Opcode.PACK_INTEGER:
        return `k ${p1}, tile ${p0} columns`;
      case Opcode.MATMUL_INTEGER:
        return `k ${p2}, tile ${p4} x ${p0} x ${p1}`;
      case Opcode.CONV: {
        const mode = this.#image.u32(p0 + ConvBlock.MODE);
        return `${this.#window(p0)} groups ${this.#image.u32(p0 + ConvBlock.GROUPS)} by ${lower(ConvMode[mode], mode)}${closing(it.flags, p5)}`;
      }
      case Opcode.POOL:
        return `${lower(PoolKind[p1], p1)} ${this.#window(p0)}`;
      case Opcode.BRANCH:
        return it.flags ? `always to region ${p0}` : `to region ${p0} unless set`;
      case Opcode.LOOP:
      case Opcode.CALL:
        return `to region ${p0}`;
      case Opcode.SOFTMAX:
        return `tile ${p0} rows`;
      case Opcode.NORM:
        return `epsilon ${floatOf(p1)}, tile ${p0} rows`;
      case Opcode.ATTENTION: {
        const forms = [it.flags & AttentionForm.CAUSAL && `causal from ${p2 | 0}`, it.flags & AttentionForm.ZEROS && "zeros"].filter(Boolean);
        return `scale ${floatOf(p1)}${forms.map((form) => `, ${form}`).join("")}, tile ${p0} rows`;
      }
      case Opcode.GATHER:
      case Opcode.GATHER_ELEMENTS:
        return `tile ${p0} rows`;
      case Opcode.SCATTER_ELEMENTS:
        return `${lower(Merge[p1], p1)}, tile ${p0} rows`;
      case Opcode.CUMULATE:
        return `${p1 ? "products" : "sums"}, tile ${p0} rows`;
      case Opcode.TOP_K:
        return `${p1 ? "largest" : "least"}, tile ${p0} rows`;
      case Opcode.GRID_SAMPLE:
        return `${lower(SampleMode[p1], p1)}, tile ${p0} positions`;
      case Opcode.ROI_ALIGN:
        return `${p1 ? "max" : "avg"}, tile ${p0} rois`;
      case Opcode.RNN:
        return lower(RnnKind[p0], p0);
      case Opcode.PROBE:
        return `${lower(Probe[p0], p0)} ${p1}`;
      default:
        return "";
    }
  }

  text(): string {
    const image = this.#image;
    const lines: string[] = [];
    const header = (field: number): number => image.header(field);
    lines.push(
      `program: ${header(Program.BYTES)} bytes, ${header(Program.INSTRUCTION_COUNT)} instructions in ${header(Program.REGION_COUNT)} regions, ` +
        `${header(Program.TENSOR_COUNT)} tensor records, arena ${header(Program.ARENA_BYTES)} bytes`,
    );
    for (let r = 0; r < header(Program.REGION_COUNT); r++) {
      const at = header(Program.REGIONS) + r * Region.SIZE;
      lines.push(`region ${r}: ${image.u32(at + Region.TILES)} tiles, about ${(image.u32(at + Region.COST_NS) / 1000).toFixed(1)} us`);
      const first = image.u32(at + Region.FIRST);
      for (let i = first; i < first + image.u32(at + Region.COUNT); i++) {
        const it = image.instruction(i);
        const node = image.nodeName(it.node);
        const details = [lower(Opcode[it.op], it.op), this.#details(it)].filter((text) => text !== "").join(" ");
        lines.push(`  ${details} (${it.tiles} tiles)${node === "" ? "" : ` ; ${node}`}`);
        for (const [o, operand] of it.operands.entries()) lines.push(`    t${o} ${this.#tensor(operand)}`);
        if (it.block !== 0) lines.push(...this.#strip(it.block).map((line) => `    ${line}`));
      }
    }
    return `${lines.join("\n")}\n`;
  }
}

/** Text of a verified image; `inputs` tells input bindings from outputs. */
export function disassemble(image: Uint8Array, inputs?: number): string {
  return new Disassembler(image, inputs).text();
}
