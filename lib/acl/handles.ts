/**
 * Handles are integers that say what they are: type, device, generation, index. Whoever has attached to the device can use the same integer,
 * and a stale or foreign one is found out. They lie above every address, so an address is never taken for a handle.
 *
 *   type * 2^46 | device * 2^40 | generation * 2^16 | index
 */
import { AclError } from "../errors/acl-error";

export enum HandleType {
  CONTEXT = 1,
  STREAM,
  EVENT,
  NOTIFY,
  COUNT_NOTIFY,
  POOL,
  PHYSICAL,
  BINARY,
  FUNCTION,
  KERNEL_ARGS,
  PLACEHOLDER,
  DATA_BUFFER,
  TENSOR_DESC,
  STREAM_CONFIG,
  EXCEPTION,
  ALLOCATOR,
  MODEL,
  MODEL_DESC,
  DATASET,
  OP_ATTR,
  OP,
  PROFILE,
  STAMP,
  COPY_DESC,
  CAPTURE,
  TASK_GROUP,
  LABEL,
  LABEL_LIST,
  CONFIG,
  TEMPORARY,
}

export interface HandleParts {
  readonly type: HandleType;
  /** Index of the device, or LOCAL for objects that live in one Node thread. */
  readonly device: number;
  readonly generation: number;
  readonly index: number;
}

/** Device field of a handle whose object belongs to no device. */
export const LOCAL = 63;
const TYPE_UNIT = 2 ** 46;
const DEVICE_UNIT = 2 ** 40;
const GENERATION_UNIT = 2 ** 16;
const GENERATIONS = 2 ** 24;

export function encodeHandle(type: HandleType, device: number, generation: number, index: number): number {
  return type * TYPE_UNIT + device * DEVICE_UNIT + (generation % GENERATIONS) * GENERATION_UNIT + index;
}

/** The parts of `handle`; undefined if no handle looks like it. */
export function decodeHandle(handle: number): HandleParts | undefined {
  if (!Number.isSafeInteger(handle) || handle < TYPE_UNIT) {
    return undefined;
  }
  const type = Math.floor(handle / TYPE_UNIT);
  if (HandleType[type] === undefined) {
    return undefined;
  }
  return {
    type,
    device: Math.floor(handle / DEVICE_UNIT) % 64,
    generation: Math.floor(handle / GENERATION_UNIT) % GENERATIONS,
    index: handle % GENERATION_UNIT,
  };
}

export function sameGeneration(parts: HandleParts, generation: number): boolean {
  return parts.generation === generation % GENERATIONS;
}

function nameOf(type: HandleType): string {
  return HandleType[type].toLowerCase().replace("_", " ");
}

function describe(handle: number): string {
  const parts = decodeHandle(handle);
  return parts === undefined ? `${handle} is no handle` : `0x${handle.toString(16)} is the handle of a ${nameOf(parts.type)}`;
}

/** The parts of a handle that must be of `type`. @throws AclError 107000 for 0, 107017 for anything that is not of the type */
export function expectHandle(handle: number, type: HandleType, what: string): HandleParts {
  if (handle === 0) {
    throw new AclError(107000, `${what} is null; pass the handle of a ${nameOf(type)}`);
  }
  const parts = decodeHandle(handle);
  if (parts === undefined || parts.type !== type) {
    throw new AclError(107017, `${what}: ${describe(handle)}; pass the handle of a ${nameOf(type)}`);
  }
  return parts;
}

/** Objects of this Node thread behind handles of one type. */
export class HandleTable<T> {
  readonly #type: HandleType;
  readonly #entries: { generation: number; object: T | undefined }[] = [];
  readonly #free: number[] = [];

  constructor(type: HandleType) {
    this.#type = type;
  }

  /** Live objects. */
  get size(): number {
    return this.#entries.length - this.#free.length;
  }

  add(object: T): number {
    const index = this.#free.pop() ?? this.#entries.length;
    if (index >= GENERATION_UNIT) {
      throw new AclError(207012, `${GENERATION_UNIT} ${nameOf(this.#type)} handles are live in this thread; destroy some`);
    }
    const generation = (this.#entries[index]?.generation ?? 0) + 1;
    this.#entries[index] = { generation, object };
    return encodeHandle(this.#type, LOCAL, generation, index);
  }

  /** @throws AclError 107000 for 0, 107017 for a wrong type or a destroyed object */
  get(handle: number, what: string): T {
    const parts = expectHandle(handle, this.#type, what);
    const entry = this.#entries[parts.index];
    if (entry?.object === undefined || !sameGeneration(parts, entry.generation)) {
      const why = entry === undefined ? "was made by another thread" : "is destroyed";
      throw new AclError(107017, `${what}: the ${nameOf(this.#type)} ${why}; create another`);
    }
    return entry.object;
  }

  remove(handle: number, what: string): T {
    const object = this.get(handle, what);
    const { index } = expectHandle(handle, this.#type, what);
    (this.#entries[index] as { object: T | undefined }).object = undefined;
    this.#free.push(index);
    return object;
  }

  *values(): IterableIterator<T> {
    for (const { object } of this.#entries) {
      if (object !== undefined) {
        yield object;
      }
    }
  }

  clear(): void {
    for (const [index, entry] of this.#entries.entries()) {
      if (entry.object !== undefined) {
        entry.object = undefined;
        this.#free.push(index);
      }
    }
  }
}
