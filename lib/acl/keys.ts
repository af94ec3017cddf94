/**
 * Keys by which threads of this process give each other memory: device memory by its start, physical memory by its handle. All threads see one device
 * memory, so what a key opens has the same address everywhere. Another process has another device: its keys are refused.
 */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { addressOf, Location, resolve } from "./addresses";
import { OwnerBit, ownerAt, releaseHooks } from "./allocations";
import { type AclDevice, deviceIfOpen, Shared } from "./devices";
import { deviceEnds } from "./lifecycle";
import { exclusively } from "./process";
import { RecordTable } from "./records";
import { Physical, physicalHandle, physicalOf, physicals, physicalWord, setPhysical } from "./physical";

/** Words of a key. */
enum Key {
  LIVE,
  GENERATION,
  START,
  SIZE,
  FLAGS,
  ALLOWED,
  IMPORTS,
}
/** Of keys and of shareable handles: no white list. */
export const DISABLE_PID_VALIDATION = 1;
/** Characters of a key, and the 0 behind it that C needs. */
export const KEY_BYTES = 65;
const KEY_TEXT = /^npurt([0-9a-f]{11})([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{8})0{24}$/;

const keys = new RecordTable(Shared.KEYS, 512, 8);
/** Keys that this thread has imported, and how often. */
const importedHere = new Map<string, number>();

function word(device: AclDevice, index: number, which: Key): number {
  return device.machine.words[keys.at(device, index) + which]!;
}

function setWord(device: AclDevice, index: number, which: Key, value: number): void {
  device.machine.words[keys.at(device, index) + which] = value;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

function checkProcess(pid: number, what: string): void {
  if (pid !== process.pid) {
    throw new AclError(
      207000,
      `${what}: the key was made by process ${pid}, and this is ${process.pid}: an emulated device lives in one process; share with worker threads, or copy through a file or socket`,
    );
  }
}

/** Only this process can import, so of a white list one thing matters: whether it is on it. */
export function isListed(pids: readonly number[], what: string): boolean {
  if (pids.length === 0 || pids.some((pid) => pid <= 0)) {
    throw invalidParam(`${what}: pids is [${pids.join(", ")}]; pass process ids, as device_get_bare_tgid tells`);
  }
  return pids.includes(process.pid);
}

// ---- keys of device memory

/** @throws AclError 107000 if `address` is not the start of an allocation of at least `sizeBytes` */
export function exportKey(address: number, sizeBytes: number, flags: number): string {
  const what = "ipc_mem_get_export_key";
  return exclusively(() => {
    const { device, offset, location } = resolve(address, Math.max(1, sizeBytes), `${what}: devPtr`);
    const { owner, sizeBytes: most } = allocationAt(device, offset);
    if (device === undefined || location !== Location.DEVICE || owner === 0 || owner & OwnerBit.FREE_CHARGE || sizeBytes <= 0 || sizeBytes > most) {
      throw invalidParam(
        `${what}: 0x${address.toString(16)} with ${sizeBytes} bytes is not the start of device memory; pass what malloc returned: a piece of it, pooled or mapped memory cannot be exported`,
      );
    }
    const index = keys.add(device);
    if (index < 0) {
      throw new AclError(207012, `${what}: device ${device.index} has 512 keys; close some`);
    }
    setWord(device, index, Key.START, offset);
    setWord(device, index, Key.SIZE, most);
    setWord(device, index, Key.FLAGS, flags);
    const id = hex(process.pid, 11) + hex(device.index, 8) + hex(index, 8) + hex(word(device, index, Key.GENERATION), 8);
    return `npurt${id}${"0".repeat(24)}`;
  });
}

function allocationAt(device: AclDevice | undefined, offset: number): { owner: number; sizeBytes: number } {
  if (device === undefined) {
    return { owner: 0, sizeBytes: 0 };
  }
  return { owner: ownerAt(device, offset), sizeBytes: device.machine.core.allocationBytes(offset) >>> 0 };
}

/** @throws AclError 107000 for what is no key, 207000 for one of another process, 507899 for a closed one */
function keyOf(text: string, what: string): { device: AclDevice; index: number } {
  const match = KEY_TEXT.exec(text.replace(/\0+$/, ""));
  if (match === null) {
    throw invalidParam(`${what}: "${text.slice(0, 80)}" is no key; pass what ipc_mem_get_export_key returned`);
  }
  const [pid, deviceIndex, index, generation] = match.slice(1).map((part) => Number.parseInt(part, 16)) as [number, number, number, number];
  checkProcess(pid, what);
  const device = deviceIfOpen(deviceIndex);
  const live =
    device !== undefined && keys.exists(device) && word(device, index, Key.LIVE) !== 0 && word(device, index, Key.GENERATION) === generation;
  if (!live) {
    throw new AclError(507899, `${what}: the key is closed, its memory was freed, or its device was reset; export the memory again`);
  }
  return { device, index };
}

/** Throws if `text` is no live key. */
export function checkKey(text: string, what: string): void {
  exclusively(() => keyOf(text, what));
}

export function allowKey(text: string, pids: readonly number[]): void {
  const what = "ipc_mem_set_import_pid";
  exclusively(() => {
    const { device, index } = keyOf(text, what);
    if (isListed(pids, what)) {
      setWord(device, index, Key.ALLOWED, 1);
    }
  });
}

/** The address of the memory. @throws AclError 507022 if this process is not on the key's white list */
export function importKey(text: string): number {
  const what = "ipc_mem_import_by_key";
  return exclusively(() => {
    const { device, index } = keyOf(text, what);
    if (word(device, index, Key.ALLOWED) === 0 && !(word(device, index, Key.FLAGS) & DISABLE_PID_VALIDATION)) {
      throw new AclError(
        507022,
        `${what}: process ${process.pid} is not on the key's white list; call ipc_mem_set_import_pid with it, or export with flag 1`,
      );
    }
    const start = word(device, index, Key.START);
    setWord(device, index, Key.IMPORTS, word(device, index, Key.IMPORTS) + 1);
    importedHere.set(text, (importedHere.get(text) ?? 0) + 1);
    return addressOf(device, start, false);
  });
}

/** An importer gives its import back; the thread that exported ends the key. */
export function closeKey(text: string): void {
  exclusively(() => {
    const { device, index } = keyOf(text, "ipc_mem_close");
    const mine = importedHere.get(text) ?? 0;
    if (mine > 0) {
      importedHere.set(text, mine - 1);
      setWord(device, index, Key.IMPORTS, word(device, index, Key.IMPORTS) - 1);
    } else {
      keys.remove(device, index);
    }
  });
}

// ---- shareable handles of physical memory

/** pid * 2^31 | device * 2^25 | generation * 2^10 | index: fits 53 bits, as process ids are below 2^22. */
const PID_UNIT = 2 ** 31;
const DEVICE_UNIT = 2 ** 25;
const GENERATION_UNIT = 2 ** 10;
const GENERATIONS = 2 ** 15;

export function exportPhysical(handle: number, flags: number): number {
  const what = "mem_export_to_shareable_handle";
  return exclusively(() => {
    const { device, index, imported } = physicalOf(handle, what);
    if (imported) {
      throw invalidParam(`${what}: this memory was imported; let the one who made it export it`);
    }
    setPhysical(device, index, Physical.EXPORTED, 1 + flags);
    const generation = physicalWord(device, index, Physical.GENERATION) % GENERATIONS;
    return process.pid * PID_UNIT + device.index * DEVICE_UNIT + generation * GENERATION_UNIT + index;
  });
}

function sharedPhysical(shareable: number, what: string): { device: AclDevice; index: number } {
  if (shareable <= 0) {
    throw invalidParam(`${what}: ${shareable} is no shareable handle; pass what mem_export_to_shareable_handle returned`);
  }
  checkProcess(Math.floor(shareable / PID_UNIT), what);
  const device = deviceIfOpen(Math.floor(shareable / DEVICE_UNIT) % 64);
  const index = shareable % GENERATION_UNIT;
  const generation = Math.floor(shareable / GENERATION_UNIT) % GENERATIONS;
  const live =
    device !== undefined &&
    physicals.exists(device) &&
    physicalWord(device, index, Physical.LIVE) !== 0 &&
    physicalWord(device, index, Physical.GENERATION) % GENERATIONS === generation &&
    physicalWord(device, index, Physical.EXPORTED) !== 0;
  if (!live) {
    throw new AclError(507899, `${what}: the memory behind the shareable handle was freed, or its device reset; export it again`);
  }
  return { device, index };
}

export function allowPhysical(shareable: number, pids: readonly number[]): void {
  const what = "mem_set_pid_to_shareable_handle";
  exclusively(() => {
    const { device, index } = sharedPhysical(shareable, what);
    if (isListed(pids, what)) {
      setPhysical(device, index, Physical.ALLOWED, 1);
    }
  });
}

/** @throws AclError 507022 if this process is not on the white list */
export function importPhysical(shareable: number, deviceIndex: number): number {
  const what = "mem_import_from_shareable_handle";
  return exclusively(() => {
    const { device, index } = sharedPhysical(shareable, what);
    if (device.index !== deviceIndex) {
      throw invalidParam(`${what}: the memory is of device ${device.index}, not ${deviceIndex}; pass its device`);
    }
    const flags = physicalWord(device, index, Physical.EXPORTED) - 1;
    if (physicalWord(device, index, Physical.ALLOWED) === 0 && !(flags & DISABLE_PID_VALIDATION)) {
      throw new AclError(
        507022,
        `${what}: process ${process.pid} is not on the white list; call mem_set_pid_to_shareable_handle with it, or export with flag 1`,
      );
    }
    setPhysical(device, index, Physical.IMPORTS, physicalWord(device, index, Physical.IMPORTS) + 1);
    return physicalHandle(device, index, true);
  });
}

releaseHooks.push((device, offset) => {
  for (const index of keys.live(device)) {
    if (word(device, index, Key.START) === offset) {
      keys.remove(device, index);
    }
  }
});

deviceEnds.push((device) => keys.clear(device));
