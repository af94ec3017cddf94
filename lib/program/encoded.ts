/** What the encoder of one instruction gives; encode.ts lays it out. */
import type { Opcode } from "../../asm/abi/isa";

export interface Encoded {
  readonly op: Opcode;
  readonly tiles: number;
  readonly costNs: number;
  /** Indices into the tensor table, target first. */
  readonly operands?: readonly number[];
  readonly params?: readonly number[];
  readonly flags?: number;
  /** Strip block. */
  readonly block?: Uint8Array;
  /** Geometry block (ConvBlock); its offset becomes P0. */
  readonly geometry?: Uint8Array;
}
