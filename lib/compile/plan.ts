/**
 * plan: where arena blobs lie. A blob lives from the region that first touches it to the one that last does; blobs that never live together may
 * share bytes. Each is placed into the smallest gap that holds it, in the order that turns out best. The result is checked by replaying the lifetimes.
 */
import { AclError } from "../errors/acl-error";
import { internal } from "../errors/make";
import { DTYPES } from "../graph/dtype";
import { sameLayout } from "../ops/views";
import type { Blob, Instruction, View } from "../program/types";
import { readsOf, writesOf } from "./operands";
import type { CompileState, Placement } from "./state";

export const ALIGNMENT = 64;

/** A run of bytes that has no place yet. */
export interface Lifetime {
  readonly sizeBytes: number;
  readonly first: number;
  readonly last: number;
}
interface Life extends Lifetime {
  sizeBytes: number;
  first: number;
  last: number;
  readonly blobs: Blob[];
}

export function planMemory(state: CompileState): void {
  const lives = lifetimes(state.regions!);
  const offsets = place(lives);
  const placements = lives.map((life, index): Placement => ({ ...life, offsetBytes: offsets[index]! }));
  for (const { blobs, offsetBytes } of placements) {
    for (const blob of blobs) {
      blob.offsetBytes = offsetBytes;
    }
  }
  const arenaBytes = placements.reduce((end, { offsetBytes, sizeBytes }) => Math.max(end, offsetBytes + aligned(sizeBytes)), 0);
  if (arenaBytes >= 2 ** 32) {
    throw new AclError(207001, `the model needs ${arenaBytes} bytes for intermediate values at once, more than a device has; use a smaller batch`);
  }
  state.plan = { arenaBytes, largestLiveBytes: largestLive(placements), placements };
  replay(placements);
}

export const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

function lifetimes(regions: readonly (readonly Instruction[])[]): Life[] {
  const lives = new Map<Blob, Life>();
  const touch = (blob: Blob, region: number): void => {
    if (blob.binding !== "arena") {
      return;
    }
    const life = lives.get(blob);
    if (life) {
      life.last = region;
    } else {
      lives.set(blob, { blobs: [blob], sizeBytes: blob.sizeBytes, first: region, last: region });
    }
  };
  regions.forEach((instructions, region) => {
    for (const instruction of instructions) {
      for (const { blob } of [...readsOf(instruction), ...writesOf(instruction)]) {
        touch(blob, region);
      }
    }
  });
  holdThroughLoops(regions, new Set(lives.values()));
  regions.forEach((instructions, region) => {
    for (const instruction of instructions) {
      const source = reusable(instruction, instructions, region, lives);
      if (source) {
        join(lives, source, writesOf(instruction)[0]!.blob);
      }
    }
  });
  return [...new Set(lives.values())];
}

/**
 * Regions that run again: what lived before them lives until the last turn has ended, and what lives on behind them must outlast every turn.
 * Loops are met from the inside out, since an inner one ends first.
 */
function holdThroughLoops(regions: readonly (readonly Instruction[])[], lives: ReadonlySet<Life>): void {
  regions.forEach(([instruction], end) => {
    if (instruction?.op !== "loop" && instruction?.op !== "branch") {
      return;
    }
    const begin = instruction.to;
    for (const life of begin <= end ? lives : []) {
      if (life.first < begin && life.last >= begin) {
        life.last = Math.max(life.last, end);
      } else if (life.first >= begin && life.first <= end && life.last > end) {
        life.first = begin;
      }
    }
  });
}

const INPLACE: ReadonlySet<Instruction["op"]> = new Set(["map", "softmax", "norm"]);

/**
 * The blob whose bytes an instruction may overwrite: it dies here, nobody else in the region reads it, and every element is read from exactly the
 * place where its result goes. Strips load all their operands before they store, SOFTMAX and NORM a whole row, and no two tiles touch one element.
 */
function reusable(instruction: Instruction, region: readonly Instruction[], index: number, lives: ReadonlyMap<Blob, Life>): Blob | undefined {
  const [target, ...others] = INPLACE.has(instruction.op) ? writesOf(instruction) : [];
  if (!target || others.length > 0) {
    return undefined;
  }
  const born = lives.get(target.blob);
  if (!born || born.first !== index || born.blobs.length > 1) {
    return undefined;
  }
  const reads = readsOf(instruction);
  const fits = (view: View): boolean =>
    DTYPES[view.dtype].bytes === DTYPES[target.dtype].bytes &&
    view.offsetBytes === target.offsetBytes &&
    sameLayout(view, target) &&
    view.blob.sizeBytes === target.blob.sizeBytes;
  return reads.find(({ blob }) => {
    const life = lives.get(blob);
    const alone = region.every(
      (other) => other === instruction || [...readsOf(other), ...writesOf(other)].every((view) => lives.get(view.blob) !== life),
    );
    return (
      life &&
      life !== born &&
      life.last === index &&
      life.first < index &&
      alone &&
      reads.every((view) => lives.get(view.blob) !== life || fits(view))
    );
  })?.blob;
}

function join(lives: Map<Blob, Life>, source: Blob, target: Blob): void {
  const [into, from] = [lives.get(source)!, lives.get(target)!];
  into.blobs.push(...from.blobs);
  into.last = Math.max(into.last, from.last);
  into.sizeBytes = Math.max(into.sizeBytes, from.sizeBytes);
  for (const blob of from.blobs) {
    lives.set(blob, into);
  }
}

/** In which order lifetimes get their places; each order is best for some graph. */
const ORDERS: readonly ((a: Lifetime, b: Lifetime) => number)[] = [
  (a, b) => b.sizeBytes - a.sizeBytes || a.first - b.first,
  (a, b) => (b.last - b.first + 1) * b.sizeBytes - (a.last - a.first + 1) * a.sizeBytes,
  (a, b) => b.last - b.first - (a.last - a.first) || b.sizeBytes - a.sizeBytes,
  (a, b) => a.first - b.first || b.sizeBytes - a.sizeBytes,
  (a, b) => b.last - a.last || b.sizeBytes - a.sizeBytes,
];
/** Rounds of giving the blob that ends highest an earlier turn, when no order alone comes near the bound. */
const ROUNDS = 100;
const NEAR = 1.02;

/** Byte offset of each lifetime, 64-aligned: the best of several orders. */
export function place(lives: readonly Lifetime[]): number[] {
  const bound = largestLive(lives);
  let best: { readonly offsets: number[]; readonly end: number; readonly order: number[] } | undefined;
  const consider = (order: number[]): boolean => {
    const offsets = placeInOrder(lives, order);
    const end = offsets.reduce((most, at, index) => Math.max(most, at + aligned(lives[index]!.sizeBytes)), 0);
    const better = !best || end <= best.end;
    best = better ? { offsets, end, order } : best!;
    return best.end <= bound * NEAR;
  };
  const indices = lives.map((_, index) => index);
  for (const compare of ORDERS) {
    if (consider([...indices].sort((a, b) => compare(lives[a]!, lives[b]!) || a - b))) {
      return best!.offsets;
    }
  }
  let seed = 1;
  const below = (limit: number): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * limit);
  };
  for (let round = 0; round < ROUNDS; round++) {
    const { offsets, end, order } = best!;
    const top = order.findIndex((index) => offsets[index]! + aligned(lives[index]!.sizeBytes) === end);
    // Now and then another one moves, which leads out of dead ends.
    const from = round % 3 === 2 ? below(order.length) : top;
    const to = below(from + 1);
    if (consider([...order.slice(0, to), order[from]!, ...order.slice(to, from), ...order.slice(from + 1)])) {
      break;
    }
  }
  return best!.offsets;
}

function placeInOrder(lives: readonly Lifetime[], order: readonly number[]): number[] {
  const offsets = new Array<number>(lives.length).fill(0);
  // Kept by offset, so that gaps are found in one walk.
  const placed: number[] = [];
  for (const index of order) {
    const { first, last, sizeBytes } = lives[index]!;
    const need = aligned(sizeBytes);
    let end = 0;
    let best: { at: number; gap: number } | undefined;
    for (const other of placed) {
      if (lives[other]!.first > last || first > lives[other]!.last) {
        continue;
      }
      const gap = offsets[other]! - end;
      if (gap >= need && (!best || gap < best.gap)) {
        best = { at: end, gap };
      }
      end = Math.max(end, offsets[other]! + aligned(lives[other]!.sizeBytes));
    }
    offsets[index] = best?.at ?? end;
    let slot = placed.length;
    while (slot > 0 && offsets[placed[slot - 1]!]! > offsets[index]!) {
      slot--;
    }
    placed.splice(slot, 0, index);
  }
  return offsets;
}

export function largestLive(lives: readonly Lifetime[]): number {
  const changes = new Map<number, number>();
  for (const { first, last, sizeBytes } of lives) {
    changes.set(first, (changes.get(first) ?? 0) + aligned(sizeBytes));
    changes.set(last + 1, (changes.get(last + 1) ?? 0) - aligned(sizeBytes));
  }
  let [live, most] = [0, 0];
  for (const region of [...changes.keys()].sort((a, b) => a - b)) {
    live += changes.get(region)!;
    most = Math.max(most, live);
  }
  return most;
}

/** Walks the regions with the set of live placements. @throws AclError 507000 when two of them share a byte: a defect of the planner */
export function replay(placements: readonly (Lifetime & { readonly offsetBytes: number })[]): void {
  const starts = [...placements].sort((a, b) => a.first - b.first);
  let live: typeof starts = [];
  for (const next of starts) {
    live = live.filter(({ last }) => last >= next.first);
    for (const other of live) {
      if (
        other.sizeBytes > 0 &&
        next.sizeBytes > 0 &&
        other.offsetBytes < next.offsetBytes + next.sizeBytes &&
        next.offsetBytes < other.offsetBytes + other.sizeBytes
      ) {
        throw internal(`memory plan: bytes ${next.offsetBytes}..${next.offsetBytes + next.sizeBytes} are live twice in region ${next.first}`);
      }
    }
    live.push(next);
  }
}
