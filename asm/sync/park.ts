/** Sleeping and waking: cores sleep on BELL, host threads on HOST_BELL. */
import { Header, Layout } from "../abi/device";

const BELL: usize = Layout.HEADER + Header.BELL;
const SLEEPERS: usize = Layout.HEADER + Header.SLEEPERS;
const HOST_BELL: usize = Layout.HEADER + Header.HOST_BELL;
const HOST_WAITERS: usize = Layout.HEADER + Header.HOST_WAITERS;

/**
 * Wakes up to `count` sleeping cores; a load when none sleeps (a notify costs 8 us).
 * The caller made work visible before (ready bit); a core sets its SLEEPERS bit before it looks for work the last time: one of the two sees the other.
 */
export function bell(count: i32): void {
  if (atomic.load<u64>(SLEEPERS) == 0) return;
  atomic.add<u32>(BELL, 1);
  atomic.notify(BELL, count);
}

/** Wakes host threads whose armed fence was reached. A host counts itself in HOST_WAITERS before it arms. */
export function hostBell(): void {
  atomic.add<u32>(HOST_BELL, 1);
  if (atomic.load<u32>(HOST_WAITERS)) atomic.notify(HOST_BELL, i32.MAX_VALUE);
}

export function bellCount(): i32 {
  return atomic.load<i32>(BELL);
}

export function fallAsleep(core: u32): void {
  atomic.or<u64>(SLEEPERS, (<u64>1) << core);
}

export function wakeUp(core: u32): void {
  atomic.and<u64>(SLEEPERS, ~((<u64>1) << core));
}

/** Sleeps until the bell has moved past `seen`, at most `timeoutMs`: a lost wake-up costs that much and no hang. */
export function sleep(seen: i32, timeoutMs: i64): void {
  atomic.wait<i32>(BELL, seen, timeoutMs * 1000000);
}
