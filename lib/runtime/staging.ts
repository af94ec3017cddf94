/**
 * Pageable host memory on its way to or from the device. The bytes of a host-to-device copy are taken at call time into a block of device memory
 * that goes back to the pool when its task has retired; a device-to-host copy lands in such a block first and is carried out by the host thread.
 */
import { PoolTag } from "../host/layout";
import type { Machine } from "../host/machine";
import { outOfMemory } from "../errors/make";

/** With this many blocks in flight, one slow stream must not keep the rest. */
const SWEEP_ALL = 64;

interface Block {
  readonly address: number;
  readonly stream: number;
  readonly sequence: number;
}

export class Staging {
  readonly #machine: Machine;
  /** Blocks whose task is in flight, oldest first. */
  #blocks: Block[] = [];

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** A block of `sizeBytes`; blocks the thread while memory is short and older blocks are still in flight. */
  take(sizeBytes: number): number {
    this.#sweep();
    for (;;) {
      const address = this.#machine.tryAllocate(sizeBytes, PoolTag.STAGING);
      if (address !== 0) {
        return address;
      }
      const oldest = this.#blocks[0];
      if (oldest === undefined || !this.#machine.block(oldest.stream, oldest.sequence, 30_000)) {
        throw outOfMemory(this.#machine.device, sizeBytes, this.#machine.core.poolLargestFree(), "staging for a copy of pageable host memory");
      }
      this.#sweep();
    }
  }

  /** The block goes back once `sequence` of `stream` has retired. */
  give(address: number, stream: number, sequence: number): void {
    this.#blocks.push({ address, stream, sequence });
  }

  /** The block goes back now. */
  giveNow(address: number): void {
    this.#machine.release(address);
  }

  /** Returns the blocks of retired tasks; looks at the oldest only while they are done, at all of them when many pile up. */
  #sweep(): void {
    const done = (block: Block): boolean => this.#machine.core.fence(block.stream) >= block.sequence;
    if (this.#blocks.length > SWEEP_ALL) {
      for (const block of this.#blocks.filter(done)) {
        this.#machine.release(block.address);
      }
      this.#blocks = this.#blocks.filter((block) => !done(block));
      return;
    }
    while (this.#blocks.length > 0 && done(this.#blocks[0]!)) {
      this.#machine.release(this.#blocks.shift()!.address);
    }
  }

  /** Returns everything that can be returned; for `trim`. */
  flush(): void {
    for (let before = -1; before !== this.#blocks.length; ) {
      before = this.#blocks.length;
      this.#sweep();
    }
  }
}
