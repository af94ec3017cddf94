/**
 * Finds cores that are stuck in a kernel. First the kernel's context is poisoned: a kernel that polls traps like any other. After a grace the
 * watchdog wins PHASE from KERNEL to KILLED (asm/core/tiles.ts: a core that returns must win it too, or stop) and has the worker terminated.
 */
import { Code, Context, Core, Layout, Phase } from "./layout";
import type { Machine } from "./machine";

const GRACE_MS = 250;
const LONGEST_PERIOD_MS = 100;
/** Looks further apart than this (the heart beats every 25 ms) mean that the event loop stood still. */
const BLOCKED_MS = 150;

interface Sight {
  beat: number;
  sinceMs: number;
  poisoned: number | undefined;
}

export class Watchdog {
  readonly periodMs: number;
  readonly #machine: Machine;
  readonly #limitMs: number;
  readonly #graceMs: number;
  readonly #kill: (core: number) => void;
  readonly #sights: Sight[] = [];
  #lastLook = 0;

  constructor(machine: Machine, limitMs: number, kill: (core: number) => void) {
    this.#machine = machine;
    this.#limitMs = limitMs;
    this.#graceMs = Math.min(GRACE_MS, limitMs);
    this.#kill = kill;
    this.periodMs = Math.max(1, Math.min(LONGEST_PERIOD_MS, limitMs / 4));
  }

  look(cores: number): void {
    const now = performance.now();
    if (now - this.#lastLook < this.periodMs) {
      return;
    }
    // Beats nobody looked at (a blocked event loop) do not count as standing still.
    const gap = now - this.#lastLook > Math.max(4 * this.periodMs, BLOCKED_MS);
    this.#lastLook = now;
    for (let core = 0; core < cores; core++) {
      this.#lookAt(core, now, gap);
    }
  }

  #lookAt(core: number, now: number, gap: boolean): void {
    const { ints } = this.#machine;
    const at = (Layout.CORES + core * Core.SIZE) >> 2;
    const phase = Atomics.load(ints, at + (Core.PHASE >> 2));
    const beat = Atomics.load(ints, at + (Core.BEAT >> 2));
    const sight = (this.#sights[core] ??= { beat, sinceMs: now, poisoned: undefined });
    if (phase !== Phase.KERNEL || sight.beat !== beat || (gap && sight.poisoned === undefined)) {
      this.#cure(sight);
      sight.beat = beat;
      sight.sinceMs = now;
      return;
    }
    const stuckMs = now - sight.sinceMs;
    if (stuckMs < this.#limitMs) {
      return;
    }
    if (sight.poisoned === undefined) {
      sight.poisoned = Atomics.load(ints, at + (Core.CONTEXT >> 2));
      Atomics.store(ints, (Layout.CONTEXTS + sight.poisoned * Context.SIZE + Context.POISON) >> 2, 1);
      sight.sinceMs = now - this.#limitMs;
    } else if (stuckMs > this.#limitMs + this.#graceMs) {
      this.kill(core);
    }
  }

  /** Wins `core` from KERNEL to KILLED and has its worker ended. False if it is in no kernel (any more). */
  kill(core: number): boolean {
    const phase = (Layout.CORES + core * Core.SIZE + Core.PHASE) >> 2;
    if (Atomics.compareExchange(this.#machine.ints, phase, Phase.KERNEL, Phase.KILLED) !== Phase.KERNEL) {
      return false;
    }
    this.#machine.counters.killed++;
    this.#kill(core);
    return true;
  }

  /** The kernel is out: what poisoned it must not hit the next one. */
  #cure(sight: Sight): void {
    if (sight.poisoned !== undefined) {
      const { ints } = this.#machine;
      const word = (Layout.CONTEXTS + sight.poisoned * Context.SIZE + Context.POISON) >> 2;
      sight.poisoned = undefined;
      Atomics.store(ints, word, 0);
    }
  }

  /** The worker of `core` has ended: finishes what it held as failed. False: it died outside a kernel, so the device is not to be trusted. */
  bury(core: number): boolean {
    const { ints, core: host } = this.#machine;
    const at = (Layout.CORES + core * Core.SIZE) >> 2;
    Atomics.compareExchange(ints, at + (Core.PHASE >> 2), Phase.KERNEL, Phase.KILLED);
    const sight = this.#sights[core];
    if (sight !== undefined) {
      this.#cure(sight);
    }
    const answer = host.reap(core, Code.AICORE_TIMEOUT);
    this.#machine.progress();
    return answer >= 0;
  }
}
