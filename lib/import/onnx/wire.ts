/** What the generated readers share: protobuf's wire format, with every length checked against the message that holds it. */
import { BinaryReader } from "@bufbuild/protobuf/wire";

/** Subgraphs nest; the limit only has to stop a hostile file before the stack ends. */
const DEEPEST_MESSAGE = 200;
const LENGTH_DELIMITED = 2;

type Read<T> = (reader: BinaryReader, end: number, depth: number) => T;

/** @throws RangeError or Error with the reason, when the bytes are no such message */
export function readMessage<T>(bytes: Uint8Array, read: Read<T>): T {
  const reader = new BinaryReader(bytes);
  const message = read(reader, bytes.byteLength, 0);
  if (reader.pos !== bytes.byteLength) {
    throw new RangeError("the last field is cut off");
  }
  return message;
}

export function expectWire(wire: number, expected: number): void {
  if (wire !== expected) {
    throw new Error(`a field has wire type ${wire} where ${expected} belongs`);
  }
}

export function nested<T>(reader: BinaryReader, wire: number, end: number, depth: number, read: Read<T>): T {
  const inner = lengthOf(reader, wire, end);
  if (depth >= DEEPEST_MESSAGE) {
    throw new Error(`messages nest deeper than ${DEEPEST_MESSAGE}`);
  }
  const message = read(reader, inner, depth + 1);
  if (reader.pos !== inner) {
    throw new RangeError("a field leaves the message that it is in");
  }
  return message;
}

/** Numbers one by one, or packed into one field. */
export function repeated(reader: BinaryReader, wire: number, end: number, expected: number, readOne: () => void): void {
  if (wire !== LENGTH_DELIMITED) {
    expectWire(wire, expected);
    readOne();
    return;
  }
  const inner = lengthOf(reader, wire, end);
  while (reader.pos < inner) {
    readOne();
  }
  if (reader.pos !== inner) {
    throw new RangeError("a list of numbers is cut off");
  }
}

function lengthOf(reader: BinaryReader, wire: number, end: number): number {
  expectWire(wire, LENGTH_DELIMITED);
  const inner = reader.uint32() + reader.pos;
  if (inner > end) {
    throw new RangeError(`a message of ${inner - reader.pos} bytes does not fit into the ${end - reader.pos} that are left`);
  }
  return inner;
}
