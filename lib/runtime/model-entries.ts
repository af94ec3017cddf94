/** The models of a device by what they were made from. */
import type { Model } from "./model";
import { turn } from "./turn";

/** A model that is loaded or about to be, and what it was made from. */
export interface ModelEntry {
  readonly settings: string;
  readonly bytes: Uint8Array;
  readonly loading: Promise<Model>;
}

/** Bytes that are compared between two turns of the event loop: about a millisecond. */
const COMPARE_PIECE = 4 << 20;

async function sameBytes(one: Uint8Array, other: Uint8Array): Promise<boolean> {
  for (let at = 0; at < one.length; at += COMPARE_PIECE) {
    if (at > 0) {
      await turn();
    }
    if (Buffer.compare(one.subarray(at, at + COMPARE_PIECE), other.subarray(at, at + COMPARE_PIECE)) !== 0) {
      return false;
    }
  }
  return true;
}

/** The entry of the same bytes and options. If there is none, `add` makes one in the same turn, so that no other load comes between. */
export async function entryOf(models: ReadonlySet<ModelEntry>, settings: string, bytes: Uint8Array, add: () => ModelEntry): Promise<ModelEntry> {
  for (const others = new Set<ModelEntry>(); ; ) {
    const next = [...models].find((each) => each.settings === settings && each.bytes.length === bytes.length && !others.has(each));
    if (next === undefined) {
      return add();
    }
    if (await sameBytes(next.bytes, bytes)) {
      return next;
    }
    others.add(next);
  }
}
