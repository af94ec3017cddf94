/** Devices as the parity face has them: opened by the first thread that sets one, attached to by the others, with the tables that CANN keeps per device. */
import { AclError } from "../errors/acl-error";
import { Header, Layout } from "../host/layout";
import type { Machine } from "../host/machine";
import { DeviceCore } from "../runtime/device-core";
import { config, type DevicePost, DeviceWord, deviceWord, exclusively, findDevice, lookSinks, postDevice, words } from "./process";
import type { SocProfile } from "./soc";

/** Words of a device's shared tables. */
export enum Shared {
  STREAMS, // live streams
  EVENTS, // live events with a limit
  NOTIFIES, // live notifies
  SIGNALS, // address of a 64-bit word per stream, for callbacks
  NOTIFY_WORDS, // address of a 64-bit word per notify
  PRIMARY, // context index + 1 while the primary context is active
  PRIMARY_GENERATION,
  ABORTING, // 1 while device_task_abort runs
  SATURATION, // device_set_sat_mode
  PEERS_LOW, // bit per device that this one may access
  PEERS_HIGH,
  CUBE_LIMIT, // device_set_res_limit, 0 = the hardware's
  VECTOR_LIMIT,
  RESETS, // resets that reached 0
  MERGED_COPIES, // adjacent blocks of a batch that went as one copy
  CHARGED = 16, // u64: bytes charged for allocations, by CANN's rounding
  CHARGED_PEAK = 18, // u64
  PHYSICALS = 20, // addresses of tables in the device's memory (lib/acl/records.ts)
  RANGES,
  ALIASES,
  KEYS,
  REGISTERED,
  CONVERTED_BYTES, // bytes read by copies that convert
  MANAGED, // tables
  BAD_MEMORY,
  TABLES = 64,
}

/** Words per stream. */
export enum StreamWord {
  FLAGS,
  MODE, // configured failure mode of this very stream
  TAG,
  OVERFLOW,
  SUBSCRIBER, // thread id + 1 that processes its reports
  CALLBACKS, // callbacks launched so far
  CUBE_LIMIT,
  VECTOR_LIMIT,
  CACHE_INFO,
  ENDED, // generation that a thread destroys, or destroyed: see claimEnd
}
const STREAM_WORDS = 16;

/** Words per event. */
export enum EventWord {
  FLAGS,
  CONTEXT, // index + 1 while it is live
  RESET_STREAM, // stream index + 1 of the latest reset since the latest record
  RESET_LOW,
  RESET_HIGH,
  KIND, // EventKind
  OPENED, // times it was opened by its key
  ENDED, // as StreamWord.ENDED
}
const EVENT_WORDS = 8;

/** Words per notify, counting or not. */
export enum NotifyWord {
  STATE, // 0 free, 1 notify, 2 counting notify
  GENERATION,
  CONTEXT, // index + 1
  FLAGS,
  EXPORTED, // 1 + flags of the export
  ALLOWED, // 1: this process is on the white list
  IMPORTS,
}
const NOTIFY_WORDS = 8;
export const NOTIFY_LIMIT = 16384;
/** Words per context. */
export enum ContextWord {
  PARAMETER, // three system parameters, value + 1
  ENDED = PARAMETER + 3, // as StreamWord.ENDED
}
const CONTEXT_WORDS = 4;
const STREAM_TABLE = Shared.TABLES;
const EVENT_TABLE = STREAM_TABLE + 4096 * STREAM_WORDS;
const NOTIFY_TABLE = EVENT_TABLE + 65536 * EVENT_WORDS;
const CONTEXT_TABLE = NOTIFY_TABLE + NOTIFY_LIMIT * NOTIFY_WORDS;
const SHARED_WORDS = CONTEXT_TABLE + 4096 * CONTEXT_WORDS;

/** Called when this thread opens or attaches to a device. */
export const deviceHooks: ((device: AclDevice) => void)[] = [];

export class AclDevice {
  readonly core: DeviceCore;
  readonly machine: Machine;
  readonly index: number;
  readonly epoch: number;
  readonly shared: Int32Array;
  readonly soc: SocProfile;
  /** Faults of the device that this thread's exception callbacks were told of. */
  faultsTold: number;
  readonly #charged: BigUint64Array;

  constructor(core: DeviceCore, shared: SharedArrayBuffer) {
    this.core = core;
    this.machine = core.machine;
    this.index = core.index;
    this.epoch = Atomics.load(words, deviceWord(core.index, DeviceWord.EPOCH));
    this.shared = new Int32Array(shared);
    this.soc = config().soc;
    this.faultsTold = this.faultCount;
    this.#charged = new BigUint64Array(shared, Shared.CHARGED * 4, 2);
  }

  /** Faults since the device was opened. */
  get faultCount(): number {
    return Atomics.load(this.machine.words, (Layout.HEADER + Header.FAULT_COUNT) >> 2);
  }

  get(word: Shared): number {
    return Atomics.load(this.shared, word);
  }

  set(word: Shared, value: number): void {
    Atomics.store(this.shared, word, value);
  }

  streamAt(stream: number, word: StreamWord): number {
    return STREAM_TABLE + stream * STREAM_WORDS + word;
  }

  eventAt(event: number, word: EventWord): number {
    return EVENT_TABLE + event * EVENT_WORDS + word;
  }

  notifyAt(notify: number, word: NotifyWord): number {
    return NOTIFY_TABLE + notify * NOTIFY_WORDS + word;
  }

  contextAt(context: number, word: ContextWord): number {
    return CONTEXT_TABLE + context * CONTEXT_WORDS + word;
  }

  /** Takes one of `limit`; false if all are taken. Nothing is kept then. */
  take(counter: Shared, limit: number): boolean {
    if (Atomics.add(this.shared, counter, 1) < limit) {
      return true;
    }
    Atomics.sub(this.shared, counter, 1);
    return false;
  }

  give(counter: Shared): void {
    Atomics.sub(this.shared, counter, 1);
  }

  /**
   * Whether the caller is the thread that ends an entry of a table in this life of it: the first that asks. The word says which life was claimed last and only
   * grows, so what is left of an earlier life takes nothing from a later one.
   */
  claimEnd(at: number, generation: number): boolean {
    for (let seen = Atomics.load(this.shared, at); ; ) {
      if (((seen - generation) | 0) >= 0) {
        return false;
      }
      const found = Atomics.compareExchange(this.shared, at, seen, generation);
      if (found === seen) {
        return true;
      }
      seen = found;
    }
  }

  /** Another thread may end it after all. */
  disclaimEnd(at: number, generation: number): void {
    Atomics.compareExchange(this.shared, at, generation, generation - 1);
  }

  /** Books `bytes` (negative: gives them back). */
  charge(bytes: number): void {
    const now = Atomics.add(this.#charged, 0, BigInt(bytes)) + BigInt(bytes);
    for (let peak = Atomics.load(this.#charged, 1); BigInt.asIntN(64, now) > BigInt.asIntN(64, peak); peak = Atomics.load(this.#charged, 1)) {
      if (Atomics.compareExchange(this.#charged, 1, peak, now) === peak) {
        return;
      }
    }
  }

  get chargedBytes(): number {
    return Number(Atomics.load(this.#charged, 0));
  }

  get chargedPeak(): number {
    return Number(Atomics.load(this.#charged, 1));
  }

  get memoryBytes(): number {
    return this.machine.bytes.length - Layout.HEAP;
  }

  /** Whether someone has set it and not reset it. */
  get active(): boolean {
    return this.get(Shared.PRIMARY) !== 0;
  }
}

const here = new Map<number, AclDevice>();

/** Devices that this thread has opened or attached to. */
export function devicesHere(): IterableIterator<AclDevice> {
  return here.values();
}

lookSinks.add((index) => {
  const machine = here.get(index)?.machine;
  if (machine?.opener === true && machine.lost === undefined) {
    machine.driver.check();
  }
});

function setUp(machine: Machine): void {
  const { emulator, soc } = config();
  const lanes = emulator.lanes ?? soc.lanes;
  machine.words[(Layout.HEADER + Header.LANES_FREE) >> 2] = lanes;
  machine.words[(Layout.HEADER + Header.LANES) >> 2] = lanes;
}

function open(index: number): AclDevice {
  const { emulator, soc } = config();
  const { cores, seed, faults, watchdogMs, trace } = emulator;
  const driver = emulator.driver ?? (emulator.clock === "virtual" ? "sim" : "threads");
  const costs = driver === "sim" ? { bandwidths: soc.bandwidths, taskUs: soc.taskUs } : undefined;
  const given = { cores, seed, faults, costs, watchdogMs, trace };
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const core = DeviceCore.open({ device: index, driver, memoryBytes: emulator.memory ?? soc.memoryBytes, ...set });
  setUp(core.machine);
  Atomics.add(words, deviceWord(index, DeviceWord.EPOCH), 1);
  const shared = new SharedArrayBuffer(SHARED_WORDS * 4);
  const device = new AclDevice(core, shared);
  if (driver === "threads") {
    postDevice({ token: core.machine.token(), shared });
  }
  return device;
}

function attach(index: number): AclDevice {
  if (config().emulator.driver === "inline" || config().emulator.driver === "sim" || config().emulator.clock === "virtual") {
    throw new AclError(
      207000,
      `set_device: device ${index} runs on the thread that opened it (driver "sim" or "inline"); configure emulator.driver "threads" to use it from several`,
    );
  }
  let post: DevicePost | undefined = findDevice(index);
  try {
    return new AclDevice(DeviceCore.attach(post.token), post.shared);
  } catch (error) {
    post = undefined;
    throw error;
  }
}

/** The device with physical index `index`, open in this thread from now on. */
export function ensureDevice(index: number): AclDevice {
  const known = here.get(index);
  known?.machine.checkAlive();
  if (known !== undefined && known.machine.lost === undefined) {
    return known;
  }
  return exclusively(() => {
    void known?.core.close(0).catch(() => {}); // its number is free for another opening
    const state = deviceWord(index, DeviceWord.STATE);
    const device = Atomics.load(words, state) === 2 ? attachOrOpen(index) : open(index);
    Atomics.store(words, state, 2);
    here.set(index, device);
    for (const hook of deviceHooks) {
      hook(device);
    }
    return device;
  });
}

/** The thread that opened a device may have ended: then the device is opened anew. */
function attachOrOpen(index: number): AclDevice {
  try {
    return attach(index);
  } catch (error) {
    if (!(error instanceof AclError) || error.code !== 507899) {
      throw error;
    }
    Atomics.store(words, deviceWord(index, DeviceWord.REFS), 0);
    return open(index);
  }
}

/** The device if this thread has it, or can have it because another thread of the process has opened it; undefined if nobody has. */
export function deviceIfOpen(index: number): AclDevice | undefined {
  const known = here.get(index);
  if (known !== undefined) {
    return known;
  }
  return Atomics.load(words, deviceWord(index, DeviceWord.STATE)) === 2 ? ensureDevice(index) : undefined;
}

/** Lets go of every device of this thread; those that it opened are closed. */
export function closeDevices(): void {
  for (const [index, device] of here) {
    if (device.machine.opener) {
      Atomics.store(words, deviceWord(index, DeviceWord.STATE), 0);
      Atomics.store(words, deviceWord(index, DeviceWord.REFS), 0);
    }
    // What is in flight is of no use to anybody after finalize; the workers end while the event loop goes on.
    void device.core.close(0).catch(() => {});
  }
  here.clear();
}

/** Physical indices in the order of user ids: all devices, or what ASCEND_RT_VISIBLE_DEVICES lets through (ascending, up to the first bad entry). */
export function visibleDevices(): readonly number[] {
  const { devices } = config();
  const list = process.env["ASCEND_RT_VISIBLE_DEVICES"];
  // Every call that names no device asks.
  if (seen === undefined || seen.list !== list || seen.devices !== devices) {
    seen = { list, devices, visible: visibleIn(list, devices) };
  }
  return seen.visible;
}
let seen: { readonly list: string | undefined; readonly devices: number; readonly visible: readonly number[] } | undefined;

function visibleIn(list: string | undefined, devices: number): number[] {
  if (list === undefined) {
    return Array.from({ length: devices }, (_, index) => index);
  }
  const visible: number[] = [];
  for (const token of list.split(",")) {
    const index = /^\s*\d+\s*$/.test(token) ? Number(token) : -1;
    if (index < 0 || index >= devices || index <= (visible.at(-1) ?? -1)) {
      break;
    }
    visible.push(index);
  }
  return visible;
}

/** Physical index of user id `id`. @throws AclError 107001 */
export function physicalIndex(id: number, what: string): number {
  const visible = visibleDevices();
  const index = visible[id];
  if (index === undefined) {
    const range = visible.length === 0 ? "no device is visible; check ASCEND_RT_VISIBLE_DEVICES" : `pass 0 to ${visible.length - 1}`;
    throw new AclError(107001, `${what}: device ${id} does not exist; ${range}`);
  }
  return index;
}

/** User id of a physical index; -1 if it is hidden. */
export function userId(index: number): number {
  return visibleDevices().indexOf(index);
}
