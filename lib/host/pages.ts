/** Pages of a device's memory: huge ones for speed, and back to the system when a device closes. Ranges are views of shared memory. */
import { loadAddon } from "./addon";

export const HUGE_PAGE_BYTES = 2 ** 21;

/** Allows huge pages in `range`: what streams through memory waits less for translations (docs/decisions.md). False without the addon or where the system refuses. */
export function allowHugePages(range: Uint8Array): boolean {
  return (loadAddon()?.hugePages(range) ?? 0) > 0;
}

/** Zeroes `range` and gives its whole pages back to the system where that is possible. Returns the bytes given back. */
export function wipe(range: Uint8Array): number {
  const addon = loadAddon();
  const page = addon?.pageBytes() ?? 0;
  if (addon === undefined || page <= 0) {
    range.fill(0);
    return 0;
  }
  // Returned pages read as zero; the ragged ends, each shorter than a page, do not come back and are zeroed here.
  range.fill(0, 0, page);
  range.fill(0, Math.max(0, range.length - page));
  const returned = addon.returnPages(range);
  if (returned > 0 || range.length <= 2 * page) return Math.max(returned, 0);
  range.fill(0); // the system refused
  return 0;
}
