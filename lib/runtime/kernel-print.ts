/** What kernels print: a ring in device memory, read whenever a stream reports. Each thread reads what the binaries that it loaded have printed. */
import { Print, PRINT_MORE, PRINT_SLOTS, PRINT_TEXT_BYTES, PrintRing } from "../../asm/abi/kernel";
import { Header, Layout, PoolTag } from "../host/layout";
import type { Machine } from "../host/machine";
import type { DeviceCore } from "./device-core";

/** Gets one message and the number of the block that printed it. */
export type PrintSink = (text: string, block: number) => void;

const toStdout: PrintSink = (text) => {
  process.stdout.write(text);
};

/** Address of the device's ring, made when the first printing binary is loaded. */
function ringOf(machine: Machine): number {
  const word = (Layout.HEADER + Header.PRINT) >> 2;
  const known = Atomics.load(machine.words, word);
  if (known !== 0) {
    return known;
  }
  const sizeBytes = PrintRing.RECORDS + PRINT_SLOTS * Print.SIZE;
  const ring = machine.allocate(sizeBytes, PoolTag.TRACE, "the ring that kernels print to");
  machine.bytes.fill(0, ring, ring + sizeBytes);
  const first = Atomics.compareExchange(machine.words, word, 0, ring);
  if (first !== 0) {
    machine.release(ring); // another thread was faster
  }
  return first || ring;
}

class PrintReader {
  readonly sinks = new Map<number, PrintSink>();
  readonly #machine: Machine;
  readonly #ring: number;
  /** The next slot to read. */
  #slot: number;
  #reading = false;

  constructor(machine: Machine) {
    this.#machine = machine;
    this.#ring = ringOf(machine);
    this.#slot = this.#next();
  }

  #next(): number {
    return Atomics.load(this.#machine.words, (this.#ring + PrintRing.NEXT) >>> 2);
  }

  /** Hands out every whole message. A sink that prints or synchronizes finds nothing to read. */
  read(): void {
    if (this.#reading) {
      return;
    }
    this.#reading = true;
    try {
      while ((this.#next() - this.#slot) >>> 0 > 0 && this.#readOne()) {}
    } finally {
      this.#reading = false;
    }
  }

  /** False: the message at hand is not whole yet. */
  #readOne(): boolean {
    const { words, bytes } = this.#machine;
    const waiting = (this.#next() - this.#slot) >>> 0;
    if (waiting > PRINT_SLOTS) {
      this.#slot += waiting - PRINT_SLOTS; // overwritten before anybody looked
    }
    const at = this.#ring + PrintRing.RECORDS + (this.#slot & (PRINT_SLOTS - 1)) * Print.SIZE;
    if (Atomics.load(words, (at + Print.READY) >>> 2) !== (this.#slot + 1) >>> 0) {
      // Its writer may have been ended in the middle: it is passed over once the ring is half full behind it.
      this.#slot += waiting > PRINT_SLOTS / 2 ? 1 : 0;
      return waiting > PRINT_SLOTS / 2;
    }
    const size = words[(at + Print.BYTES) >>> 2]!;
    if (size === PRINT_MORE) {
      this.#slot++; // the rest of a message whose start was overwritten
      return true;
    }
    const sink = this.sinks.get(words[(at + Print.BINARY) >>> 2]!);
    const block = words[(at + Print.BLOCK) >>> 2]!;
    const parts: Buffer[] = [];
    let left = size;
    do {
      const place = this.#ring + PrintRing.RECORDS + (this.#slot++ & (PRINT_SLOTS - 1)) * Print.SIZE + Print.TEXT;
      parts.push(bytes.subarray(place, place + Math.min(left, PRINT_TEXT_BYTES)));
      left -= PRINT_TEXT_BYTES;
    } while (left > 0);
    sink?.(Buffer.concat(parts).toString("utf8"), block);
    return true;
  }
}

const readers = new WeakMap<DeviceCore, PrintReader>();

/** What binary `id` prints goes to `sink`, by default to stdout. Returns what ends it. */
export function listenToPrints(device: DeviceCore, id: number, sink: PrintSink = toStdout): () => void {
  let reader = readers.get(device);
  if (reader === undefined) {
    const made = new PrintReader(device.machine);
    reader = made;
    readers.set(device, made);
    device.beforeReport.add(() => made.read());
  }
  const { sinks } = reader;
  sinks.set(id, sink);
  return () => {
    readers.get(device)?.read();
    sinks.delete(id);
  };
}
