/** Small tables that every thread of a device sees: records of 32-bit words in the device's memory, changed under the process's lock. */
import { PoolTag } from "../host/layout";
import type { AclDevice, Shared } from "./devices";

/** Words before the records: how many have ever been used. */
const HEAD_WORDS = 16;

export class RecordTable {
  readonly #where: Shared;
  readonly #records: number;
  readonly #words: number;

  /** `where` is the device's word that holds the table's address; word 0 of a record is 0 while it is free. */
  constructor(where: Shared, records: number, words: number) {
    this.#where = where;
    this.#records = records;
    this.#words = words;
  }

  /** Index of word 0 of record `index` in `machine.words`. */
  at(device: AclDevice, index: number): number {
    return (device.get(this.#where) >>> 2) + HEAD_WORDS + index * this.#words;
  }

  /** Whether the device has ever had one. */
  exists(device: AclDevice): boolean {
    return device.get(this.#where) !== 0;
  }

  /** Records in use. */
  *live(device: AclDevice): IterableIterator<number> {
    const base = device.get(this.#where) >>> 2;
    const used = base === 0 ? 0 : device.machine.words[base]!;
    for (let index = 0; index < used; index++) {
      if (device.machine.words[this.at(device, index)] !== 0) {
        yield index;
      }
    }
  }

  /** A free record, cleared but for word 1, which grows with every use; -1 if there is none. */
  add(device: AclDevice): number {
    const { words } = device.machine;
    if (!this.exists(device)) {
      const bytes = (HEAD_WORDS + this.#records * this.#words) * 4;
      const table = device.machine.allocate(bytes, PoolTag.SCRATCH, "a table of shared memory");
      words.fill(0, table >> 2, (table + bytes) >> 2);
      device.set(this.#where, table | 0);
    }
    const base = device.get(this.#where) >>> 2;
    for (let index = 0; index < this.#records; index++) {
      const at = this.at(device, index);
      if (words[at] === 0) {
        words[base] = Math.max(words[base]!, index + 1);
        const generation = words[at + 1]! + 1;
        words.fill(0, at, at + this.#words);
        words[at] = 1;
        words[at + 1] = generation;
        return index;
      }
    }
    return -1;
  }

  remove(device: AclDevice, index: number): void {
    device.machine.words[this.at(device, index)] = 0;
  }

  clear(device: AclDevice): void {
    for (const index of this.live(device)) {
      this.remove(device, index);
    }
  }
}
