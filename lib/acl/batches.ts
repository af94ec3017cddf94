/** Batches of copies: one task for many blocks, with adjacent blocks merged. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { TaskOp } from "../host/layout";
import { Location, resolve, type Spot } from "./addresses";
import { checkCount, checkPeers, copyNow, copyOutside, isOutside, Kind, kindOf } from "./copies";
import { Shared } from "./devices";
import { type AclStream, checkLaunch, noteTask } from "./streams";
import { AclFailure } from "./table";

export interface Batch {
  readonly targets: readonly number[];
  readonly targetSizes: readonly number[];
  readonly sources: readonly number[];
  readonly sizes: readonly number[];
  /** Attributes of ranges: {dstLoc: {id, type}, srcLoc: {id, type}}, from the entry that attrsIndexes names on. */
  readonly attrs: readonly Readonly<Record<string, unknown>>[];
  readonly attrsIndexes: readonly number[];
  /** Entries may also go from device to device. */
  readonly everyWay: boolean;
}

interface Block {
  readonly to: Spot;
  readonly from: Spot;
  readonly size: number;
}

const ENTRY_BYTES = 12;
/** What fits a thread's mailbox. */
const MOST_ENTRIES = 300;

function locationType(attribute: Readonly<Record<string, unknown>> | undefined, key: string): number | undefined {
  return (attribute?.[key] as { type?: number } | undefined)?.type;
}

function checkShape({ targets, targetSizes, sources, sizes, attrs, attrsIndexes }: Batch, what: string): void {
  const { length } = targets;
  if (length === 0 || sources.length !== length || sizes.length !== length || targetSizes.length !== length) {
    throw invalidParam(
      `${what}: ${length} targets, ${targetSizes.length} target sizes, ${sources.length} sources and ${sizes.length} sizes; pass lists of one length above 0`,
    );
  }
  const rising = attrsIndexes.every((at, index) => at >= 0 && at < length && (index === 0 ? at === 0 : at > attrsIndexes[index - 1]!));
  if (attrs.length === 0 || attrs.length !== attrsIndexes.length || !rising) {
    throw invalidParam(`${what}: attrs and attrsIndexes must have one length above 0, and the indexes start at 0 and rise`);
  }
}

/** Checks entry `index`; it must go where a batch may go, and as its attributes say. */
function blockAt(batch: Batch, index: number, what: string): Block {
  const size = batch.sizes[index]!;
  checkCount(size, batch.targetSizes[index]!, `${what}: entry ${index}`);
  const to = resolve(batch.targets[index]!, size, `${what}: target ${index}`);
  const from = resolve(batch.sources[index]!, size, `${what}: source ${index}`);
  const kind = kindOf(to, from);
  if (kind !== Kind.HOST_TO_DEVICE && kind !== Kind.DEVICE_TO_HOST && !(batch.everyWay && kind === Kind.DEVICE_TO_DEVICE)) {
    const ways = batch.everyWay
      ? "between host and device, or from device to device"
      : "between host and device; memcpy_batch_v2 takes device to device too";
    throw invalidParam(`${what}: entry ${index} is ${Kind[kind]}; a batch goes ${ways}`);
  }
  checkPeers(to, from, `${what}: entry ${index}`);
  let range = batch.attrsIndexes.length - 1;
  while (batch.attrsIndexes[range]! > index) {
    range--;
  }
  const attribute = batch.attrs[range];
  const said = [locationType(attribute, "dstLoc"), locationType(attribute, "srcLoc")];
  const device = (spot: Spot): number => (spot.location === Location.DEVICE ? Location.DEVICE : Location.HOST);
  if (said[0] !== undefined && said[1] !== undefined && (said[0] !== device(to) || said[1] !== device(from))) {
    throw invalidParam(`${what}: entry ${index} is ${Kind[kind]}, and its attributes say otherwise; correct attrs[${range}]`);
  }
  return { to, from, size };
}

function blocksOf(batch: Batch, what: string): Block[] {
  checkShape(batch, what);
  return batch.targets.map((_, index) => {
    try {
      return blockAt(batch, index, what);
    } catch (error) {
      throw error instanceof AclError ? new AclFailure(error, index) : error;
    }
  });
}

/** Blocks whose ends touch in both memories become one. */
function merge(blocks: readonly Block[]): { target: number; source: number; size: number }[] {
  const sorted = blocks.map(({ to, from, size }) => ({ target: to.offset, source: from.offset, size })).sort((a, b) => a.target - b.target);
  const merged: { target: number; source: number; size: number }[] = [];
  for (const block of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && last.target + last.size === block.target && last.source + last.size === block.source) {
      last.size += block.size;
    } else {
      merged.push(block);
    }
  }
  return merged;
}

/** Copies now. Returns what stands for "no entry failed". */
export function batchSync(batch: Batch, what: string): number {
  const blocks = blocksOf(batch, what);
  copyBlocks(blocks);
  return blocks.length;
}

function copyBlocks(blocks: readonly Block[]): void {
  for (const { to, from, size } of blocks) {
    copyNow(to, from, size);
  }
}

/** Queues the copies, up to MOST_ENTRIES merged blocks a task. */
export function batchAsync(batch: Batch, stream: AclStream, what: string): number {
  checkLaunch(stream, what);
  const blocks = blocksOf(batch, what);
  if (blocks.some(({ to, from }) => isOutside(stream, to) || isOutside(stream, from))) {
    const all = blocks.flatMap(({ to, from }) => [to, from]);
    copyOutside(stream, all, () => copyBlocks(blocks), what);
    return blocks.length;
  }
  const { device, index } = stream;
  const { machine } = device;
  const merged = merge(blocks);
  Atomics.add(device.shared, Shared.MERGED_COPIES, blocks.length - merged.length);
  for (let first = 0; first < merged.length; first += MOST_ENTRIES) {
    const part = merged.slice(first, first + MOST_ENTRIES);
    let at = machine.mailbox >> 2;
    for (const { target, source, size } of part) {
      machine.words[at++] = target;
      machine.words[at++] = source;
      machine.words[at++] = size;
    }
    noteTask(machine.submitWithArguments(index, TaskOp.BATCH, part.length * ENTRY_BYTES, part.length));
  }
  return blocks.length;
}
