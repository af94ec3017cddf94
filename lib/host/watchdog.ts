/**
 * Finds cores that are stuck in a kernel. First the core's poison word is set: a kernel that polls traps like any other. After a grace the
 * watchdog wins PHASE from KERNEL to KILLED (asm/core/tiles.ts: a core that returns must win it too, or stop) and has the worker terminated.
 * Limits are time that the core ran or slept: one that waits for a processor on a busy machine is not stuck.
 */
import { Opcode } from "../../asm/abi/isa";
import { Instruction } from "../../asm/abi/program";
import { processorTime } from "./host-threads";
import { Code, Core, Layout, Phase } from "./layout";
import type { Machine } from "./machine";

const GRACE_MS = 250;
const LONGEST_PERIOD_MS = 100;
/** Looks further apart than this (the heart beats every 25 ms) mean that this thread, and maybe the whole process, stood still. */
const BLOCKED_MS = 150;

/** What the last look at a core found. */
interface Sight {
  beat: number;
  seenMs: number;
  /** The core's processor time; NaN until it is asked for, since a core that goes from tile to tile needs no look at it. */
  spentMs: number;
  /** How long the core has been at its tile; after it was poisoned, since then. */
  stuckMs: number;
  poisoned: boolean;
}

export class Watchdog {
  readonly periodMs: number;
  readonly #machine: Machine;
  readonly #limitMs: number;
  readonly #kill: (core: number) => void;
  readonly #sights: Sight[] = [];
  #lastLook = 0;

  constructor(machine: Machine, limitMs: number, kill: (core: number) => void) {
    this.#machine = machine;
    this.#limitMs = limitMs;
    this.#kill = kill;
    this.periodMs = Math.max(1, Math.min(LONGEST_PERIOD_MS, limitMs / 4));
  }

  look(cores: number): void {
    const now = performance.now();
    if (now - this.#lastLook < this.periodMs) {
      return;
    }
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
    const sight = this.#sights[core];
    if (sight === undefined || phase !== Phase.KERNEL || sight.beat !== beat) {
      // A core that was poisoned clears its word itself when its next tile starts.
      this.#sights[core] = { beat, seenMs: now, spentMs: Number.NaN, stuckMs: 0, poisoned: false };
      return;
    }
    sight.stuckMs += this.#lapse(sight, ints[at + (Core.TID >> 2)] as number, now, gap);
    const limitMs = this.#limitOf(at);
    if (sight.poisoned) {
      if (sight.stuckMs > Math.min(GRACE_MS, limitMs)) {
        this.kill(core);
      }
      return;
    }
    // Somebody wants a user's kernel stopped before its time: an abort.
    const unwanted = Atomics.load(ints, at + (Core.POISON >> 2)) !== 0 && this.#isUserKernel(at);
    if (sight.stuckMs >= limitMs || unwanted) {
      sight.poisoned = true;
      sight.stuckMs = 0;
      Atomics.store(ints, at + (Core.POISON >> 2), 1);
    }
  }

  /** Time since the last look that counts against the core. A time that nobody looked counts only as far as the system says what the core did in it. */
  #lapse(sight: Sight, tid: number, now: number, gap: boolean): number {
    const passedMs = now - sight.seenMs;
    const spent = processorTime(tid);
    const ranMs = (spent?.ms ?? Number.NaN) - sight.spentMs;
    sight.seenMs = now;
    sight.spentMs = spent?.ms ?? Number.NaN;
    if (Number.isNaN(ranMs)) {
      return gap ? 0 : passedMs;
    }
    return spent?.asleep ? passedMs : ranMs;
  }

  /** A launch may bring its own limit. The core has not left KERNEL since its beat was seen, so its instruction is still there. */
  #limitOf(at: number): number {
    const { words } = this.#machine;
    const own = this.#isUserKernel(at) ? words[((words[at + (Core.INSTRUCTION >> 2)] as number) + Instruction.P1) >> 2] : 0;
    return own || this.#limitMs;
  }

  #isUserKernel(at: number): boolean {
    const { words, bytes } = this.#machine;
    const instruction = words[at + (Core.INSTRUCTION >> 2)] as number;
    return instruction !== 0 && bytes[instruction] === Opcode.KERNEL;
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

  /** The worker of `core` has ended: finishes what it held as failed. False: it died outside a kernel, so the device is not to be trusted. */
  bury(core: number): boolean {
    const { ints, core: host } = this.#machine;
    const at = (Layout.CORES + core * Core.SIZE) >> 2;
    Atomics.compareExchange(ints, at + (Core.PHASE >> 2), Phase.KERNEL, Phase.KILLED);
    const answer = host.reap(core, Code.AICORE_TIMEOUT);
    this.#machine.progress();
    return answer >= 0;
  }
}
