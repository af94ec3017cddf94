/** The numbers and names of the WebAssembly binary format. Reading past the end throws RangeError. */

export class Reader {
  readonly bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  byte(): number {
    const value = this.bytes[this.at++];
    if (value === undefined) {
      throw new RangeError(`it ends at byte ${this.bytes.length}`);
    }
    return value;
  }

  /** LEB128, at most 5 bytes. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        return value;
      }
    }
    throw new RangeError(`no number at byte ${this.at}`);
  }

  /** Signed LEB128, at most 5 bytes. */
  i32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        return shift < 28 && byte & 0x40 ? value | (-1 << (shift + 7)) : value;
      }
    }
    throw new RangeError(`no number at byte ${this.at}`);
  }

  /** The next `sizeBytes` as a reader of their own. */
  sub(sizeBytes: number): Reader {
    const end = this.at + sizeBytes;
    if (end > this.bytes.length) {
      throw new RangeError(`it ends at byte ${this.bytes.length}`);
    }
    const part = new Reader(this.bytes.subarray(this.at, end));
    this.at = end;
    return part;
  }

  name(): string {
    const { bytes } = this.sub(this.u32());
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
  }

  /** Reads a count and calls `item` so many times. */
  list(item: () => void): void {
    for (let left = this.u32(); left > 0; left--) {
      item();
    }
  }
}

/** `value` in LEB128. */
export function u32(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return Uint8Array.from(bytes);
}
