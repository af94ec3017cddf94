/** Uncorrectable memory errors. Emulated memory has none of its own: a program under test injects them. Calls that touch a bad range fail until it is repaired; kernels are not checked. */
import { AclError } from "../errors/acl-error";
import { guards, addressOf } from "./addresses";
import { releaseHooks } from "./allocations";
import { type AclDevice, Shared } from "./devices";
import { deviceEnds } from "./lifecycle";
import { exclusively } from "./process";
import { RecordTable } from "./records";
import { overlaps } from "./physical";
import type { BadRange } from "./shapes";

enum Bad {
  LIVE,
  GENERATION,
  START,
  SIZE,
}
const table = new RecordTable(Shared.BAD_MEMORY, 64, 4);
const word = (device: AclDevice, index: number, which: Bad): number => device.machine.words[table.at(device, index) + which]!;

export function spoil(device: AclDevice, offset: number, sizeBytes: number, what: string): void {
  exclusively(() => {
    const index = table.add(device);
    if (index < 0) {
      throw new AclError(207012, `${what}: device ${device.index} has 64 bad ranges; repair some`);
    }
    const at = table.at(device, index);
    device.machine.words[at + Bad.START] = offset;
    device.machine.words[at + Bad.SIZE] = sizeBytes;
  });
}

export function badRanges(device: AclDevice): BadRange[] {
  return [...table.live(device)].map((index) => ({
    addr: addressOf(device, word(device, index, Bad.START), false),
    len: word(device, index, Bad.SIZE),
  }));
}

/** Repairs the ranges that overlap; their bytes are 0 afterwards, as what was there is lost. Returns how many. */
export function repair(device: AclDevice, offset: number, sizeBytes: number): number {
  return exclusively(() => {
    const hit = [...table.live(device)].filter((index) => overlaps(word(device, index, Bad.START), word(device, index, Bad.SIZE), offset, sizeBytes));
    for (const index of hit) {
      const start = word(device, index, Bad.START);
      device.machine.bytes.fill(0, start, start + word(device, index, Bad.SIZE));
      table.remove(device, index);
    }
    return hit.length;
  });
}

guards.push((device, offset, sizeBytes, what) => {
  if (!table.exists(device)) {
    return;
  }
  for (const index of table.live(device)) {
    if (overlaps(word(device, index, Bad.START), word(device, index, Bad.SIZE), offset, Math.max(1, sizeBytes))) {
      throw new AclError(
        507053,
        `${what}: memory at 0x${addressOf(device, word(device, index, Bad.START), false).toString(16)} has an uncorrectable error; call mem_uce_repair`,
      );
    }
  }
});
releaseHooks.push((device, offset, sizeBytes) => void repair(device, offset, sizeBytes));
deviceEnds.push((device) => table.clear(device));
