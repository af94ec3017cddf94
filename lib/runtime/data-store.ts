/** The static tensors of a model on a device: one block, shared by the programs of all its shapes. Offsets never change; the block may move when it grows. */
import type { CompileResult } from "../compile/types";
import { copyBytes } from "../host/copy-bytes";
import { PoolTag } from "../host/layout";
import type { Machine } from "../host/machine";

const PIECE_BYTES = 1 << 18;
/** Below it, a first model is loaded before the addon would be: a cold start does not pay for it. */
const ADDON_BYTES = 1 << 18;
/** Longest stretch of copying between two turns of the event loop, about. */
const TURN_MS = 1;

export class DataStore {
  readonly #machine: Machine;
  #known: Record<string, number> = {};
  #address = 0;
  #capacity = 0;
  #used = 0;
  /** Blocks that runs in flight may still read. */
  #old: number[] = [];

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** Base of the data binding; 0 while there is none. */
  get address(): number {
    return this.#address;
  }

  get known(): Readonly<Record<string, number>> {
    return this.#known;
  }

  get usedBytes(): number {
    return this.#used;
  }

  /**
   * Takes the data that a compilation has added, in pieces: `pause` is awaited between them, so that no event loop stands still for the weights.
   * One compilation of a model at a time comes here; no run uses the new data before its program is there.
   */
  async add(result: CompileResult, pause: () => Promise<void>): Promise<void> {
    this.#reserve(result);
    let sinceMs = performance.now();
    for (const { offsetBytes, bytes } of result.data) {
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        this.#copy(bytes.subarray(at, at + PIECE_BYTES), offsetBytes + at);
        if (performance.now() - sinceMs > TURN_MS) {
          await pause();
          sinceMs = performance.now();
        }
      }
    }
    this.#settle(result);
  }

  /** As `add`, in one go. */
  addNow(result: CompileResult): void {
    this.#reserve(result);
    for (const { offsetBytes, bytes } of result.data) {
      this.#copy(bytes, offsetBytes);
    }
    this.#settle(result);
  }

  #copy(bytes: Uint8Array, offsetBytes: number): void {
    const at = this.#address + offsetBytes;
    if (bytes.length < ADDON_BYTES) {
      this.#machine.bytes.set(bytes, at);
    } else {
      copyBytes(this.#machine.bytes.subarray(at, at + bytes.length), bytes, bytes.length);
    }
  }

  #reserve({ dataBytes }: CompileResult): void {
    if (dataBytes > this.#capacity) {
      this.#grow(dataBytes);
    }
  }

  #settle({ data, dataBytes }: CompileResult): void {
    for (const { key, offsetBytes } of data) {
      this.#known[key] = offsetBytes;
    }
    this.#used = Math.max(this.#used, dataBytes);
  }

  #grow(sizeBytes: number): void {
    const address = this.#machine.allocate(sizeBytes, PoolTag.DATA, "the weights of a model");
    if (this.#address !== 0) {
      this.#machine.bytes.copyWithin(address, this.#address, this.#address + this.#used);
      this.#old.push(this.#address);
    }
    this.#address = address;
    this.#capacity = sizeBytes;
  }

  /** No run is in flight: nobody reads the old blocks. */
  settle(): void {
    for (const address of this.#old) {
      this.#machine.release(address);
    }
    this.#old = [];
  }

  free(): void {
    this.settle();
    if (this.#address !== 0) {
      this.#machine.release(this.#address);
      this.#address = 0;
      this.#capacity = 0;
      this.#used = 0;
      this.#known = {};
    }
  }
}
