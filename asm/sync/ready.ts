/**
 * Ready streams: one bitmap per priority, and one summary word per bitmap. A set bit says "look at this stream"; it may be stale, it is never missing:
 * whoever makes work sets the bit after the work is visible; whoever clears it looks for work again afterwards.
 */
import { Header, Layout, PRIORITIES } from "../abi/device";

const SUMMARY: usize = Layout.HEADER + Header.SUMMARY;
/** Where the search goes on, so that no stream starves. */
let cursor: u32 = 0;

// @ts-ignore: decorator
@inline
function wordOf(priority: u32, word: u32): usize {
  return Layout.READY + (<usize>priority << 9) + (<usize>word << 3);
}

export function setReady(stream: u32, priority: u32): void {
  const word = wordOf(priority, stream >> 6);
  const bit: u64 = (<u64>1) << (stream & 63);
  // A bit seen set is as good as set: its clearer looks for work after clearing, hence after the work that the caller has published.
  if (!(atomic.load<u64>(word) & bit)) atomic.or<u64>(word, bit);
  const summary = SUMMARY + (<usize>priority << 3);
  const mark: u64 = (<u64>1) << (stream >> 6);
  if (!(atomic.load<u64>(summary) & mark)) atomic.or<u64>(summary, mark);
}

/** The caller must look for work again after this. */
export function clearReady(stream: u32, priority: u32): void {
  const bit: u64 = (<u64>1) << (stream & 63);
  const before = atomic.and<u64>(wordOf(priority, stream >> 6), ~bit);
  if (!(before & ~bit)) clearSummary(priority, stream >> 6);
}

function clearSummary(priority: u32, word: u32): void {
  const summary = SUMMARY + (<usize>priority << 3);
  const mark: u64 = (<u64>1) << word;
  atomic.and<u64>(summary, ~mark);
  if (atomic.load<u64>(wordOf(priority, word))) atomic.or<u64>(summary, mark);
}

/** Index of a ready stream of the highest priority that has one, round robin within it; -1 if none. */
export function pickReady(): i32 {
  for (let priority: u32 = 0; priority < PRIORITIES; priority++) {
    const summary = atomic.load<u64>(SUMMARY + (<usize>priority << 3));
    if (!summary) continue;
    const stream = pickIn(priority, summary);
    if (stream >= 0) return stream;
  }
  return -1;
}

function pickIn(priority: u32, summary: u64): i32 {
  const first = cursor >> 6;
  const after = atomic.load<u64>(wordOf(priority, first)) & ((<u64>-2) << (cursor & 63));
  if (after) return found(first, after);
  // Bit 0 of `rest` is the word behind the cursor's; its own word comes last, for the streams up to the cursor.
  let rest = rotr<u64>(summary, (first + 1) & 63);
  while (rest) {
    const word = (<u32>ctz<u64>(rest) + first + 1) & 63;
    const bits = atomic.load<u64>(wordOf(priority, word));
    if (bits) return found(word, bits);
    clearSummary(priority, word);
    rest &= rest - 1;
  }
  return -1;
}

function found(word: u32, bits: u64): i32 {
  cursor = (word << 6) | <u32>ctz<u64>(bits);
  return <i32>cursor;
}
