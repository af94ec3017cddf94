/** Reads an image: bounds-checked where the bytes may be anybody's (verify), shared with the disassembler. */
import { Dtype, Instruction, Program, Tensor } from "../../asm/abi/program";
import { DTYPES, dtypeName, type DtypeName } from "../graph/dtype";
import { RECORD_DIMS } from "./tensor-table";

export interface TensorRecord {
  readonly binding: number;
  readonly dtype: DtypeName;
  readonly elementBytes: number;
  readonly offset: number;
  readonly bytes: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];
}

export interface InstructionRecord {
  readonly op: number;
  readonly flags: number;
  readonly operands: readonly number[];
  readonly tiles: number;
  readonly node: number;
  readonly block: number;
  readonly params: readonly number[];
}

export class Image {
  readonly view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  u32(at: number): number {
    return this.view.getUint32(at, true);
  }

  /** A field of the header. */
  header(field: number): number {
    return this.u32(field);
  }

  /** Record `index`; its rank says whether the next one continues it. The caller has checked that both exist. */
  tensor(index: number): TensorRecord | undefined {
    const at = this.header(Program.TENSORS) + index * Tensor.SIZE;
    const rank = this.view.getUint8(at + Tensor.RANK);
    const code = this.view.getUint8(at + Tensor.DTYPE);
    const dtype = dtypeName(code);
    if (dtype === undefined || code === Dtype.STRING) return undefined;
    const dims: number[] = [];
    const strides: number[] = [];
    for (let axis = 0; axis < rank; axis++) {
      const place = at + (axis < RECORD_DIMS ? axis * 4 : Tensor.SIZE + (axis - RECORD_DIMS) * 4);
      dims.push(this.u32(place + Tensor.DIMS));
      strides.push(this.view.getInt32(place + Tensor.STRIDES, true));
    }
    return {
      binding: this.view.getUint16(at + Tensor.BINDING, true),
      dtype,
      elementBytes: DTYPES[dtype].bytes,
      offset: this.u32(at + Tensor.OFFSET),
      bytes: this.u32(at + Tensor.BYTES),
      dims,
      strides,
    };
  }

  rank(index: number): number {
    return this.view.getUint8(this.header(Program.TENSORS) + index * Tensor.SIZE + Tensor.RANK);
  }

  instruction(index: number): InstructionRecord {
    const at = this.header(Program.INSTRUCTIONS) + index * Instruction.SIZE;
    const count = Math.min(6, this.view.getUint8(at + Instruction.OPERANDS));
    return {
      op: this.view.getUint8(at + Instruction.OP),
      flags: this.view.getUint8(at + Instruction.FLAGS),
      operands: Array.from({ length: count }, (_, i) => this.u32(at + Instruction.T0 + i * 4)),
      tiles: this.u32(at + Instruction.TILES),
      node: this.u32(at + Instruction.NODE),
      block: this.u32(at + Instruction.BLOCK),
      params: Array.from({ length: 6 }, (_, i) => this.u32(at + Instruction.P0 + i * 4)),
    };
  }

  /** Name of model node `index`; empty where the debug section does not have it. */
  nodeName(index: number): string {
    const at = this.header(Program.DEBUG);
    const size = this.header(Program.DEBUG_BYTES);
    if (at === 0 || size < 8 || index >= this.u32(at)) return "";
    const start = this.u32(at + 4 + index * 4);
    const end = this.u32(at + 8 + index * 4);
    return new TextDecoder().decode(this.bytes.subarray(at + start, at + end));
  }
}
