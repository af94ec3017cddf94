/**
 * Snapshots of the process: RUNNING -lock-> LOCKED -backup-> BACKED_UP -restore-> LOCKED -unlock-> RUNNING. While it is locked nothing is launched or
 * allocated; while it is backed up, device memory has no contents. Other threads wait for the unlock; the one that locked would wait for itself, so it is told.
 */
import { threadId } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { guards } from "./addresses";
import { allocationGuards, OwnerBit, ownerAt } from "./allocations";
import { contextsOf, streamsOf } from "./contexts";
import { type AclDevice, devicesHere } from "./devices";
import { allocationsOf } from "./lifecycle";
import { nap, Word, words } from "./process";
import { launchGuards, stateOf, streamView } from "./streams";
import { StreamState } from "../host/layout";
import { blockOn } from "./waiting";

export enum SnapshotState {
  RUNNING,
  LOCKED,
  BACKED_UP,
}
/** When callbacks are called. */
export enum SnapshotStage {
  LOCK_PRE,
  BACKUP_PRE,
  BACKUP_POST,
  RESTORE_PRE,
  RESTORE_POST,
  UNLOCK_POST,
}
export type SnapshotCallback = (stage: number, args: unknown) => unknown;

/** Codes by step. */
const [LOCK_TIMEOUT, LOCK, UNLOCK, BACKUP, RESTORE, CALLBACK, NO_CALLBACK] = [507905, 507906, 507907, 507908, 507909, 507912, 507913];
/** Another thread that launches while the process is locked waits at most this long. */
const PATIENCE_MS = 60_000;

interface Saved {
  readonly device: AclDevice;
  readonly offset: number;
  readonly bytes: Buffer;
}
let saved: Saved[] = [];
const callbacks: { stage: SnapshotStage; callback: SnapshotCallback; args: unknown }[] = [];

export function snapshotState(): SnapshotState {
  return Atomics.load(words, Word.SNAPSHOT);
}

function expect(state: SnapshotState, code: number, what: string): void {
  const now = snapshotState();
  if (now !== state) {
    throw new AclError(
      code,
      `${what}: the process is ${SnapshotState[now]}, and must be ${SnapshotState[state]}; the order is lock, backup, restore, unlock`,
    );
  }
  if (state !== SnapshotState.RUNNING && Atomics.load(words, Word.SNAPSHOT_THREAD) !== threadId + 1) {
    throw new AclError(code, `${what}: thread ${Atomics.load(words, Word.SNAPSHOT_THREAD) - 1} has locked the process; let it go on`);
  }
}

function call(stage: SnapshotStage, what: string): void {
  for (const { callback, args } of callbacks.filter((one) => one.stage === stage)) {
    let answer: unknown;
    try {
      answer = callback(stage, args);
    } catch (error) {
      throw new AclError(CALLBACK, `${what}: the callback of stage ${SnapshotStage[stage]} threw ${String(error)}`, { cause: error });
    }
    if (typeof answer === "number" && answer !== 0) {
      throw new AclError(CALLBACK, `${what}: the callback of stage ${SnapshotStage[stage]} returned ${answer}`);
    }
  }
}

/** Lets every stream of this thread's devices drain. */
function drained(timeoutMs: number): boolean {
  const end = performance.now() + timeoutMs;
  for (const device of devicesHere()) {
    for (const context of contextsOf(device)) {
      for (const index of streamsOf(context)) {
        const stream = streamView(device, index);
        const left = Math.max(0, end - performance.now());
        if (stateOf(stream) === StreamState.LIVE && !blockOn(device, index, device.machine.core.tail(index), left)) {
          return false;
        }
      }
    }
  }
  return true;
}

/** @throws AclError 507906 if it is not running, 507905 if work does not end in time */
export function lockProcess(timeoutMs: number): void {
  const what = "snap_shot_process_lock";
  expect(SnapshotState.RUNNING, LOCK, what);
  call(SnapshotStage.LOCK_PRE, what);
  if (Atomics.compareExchange(words, Word.SNAPSHOT, SnapshotState.RUNNING, SnapshotState.LOCKED) !== SnapshotState.RUNNING) {
    throw new AclError(LOCK, `${what}: another thread has just locked the process`);
  }
  Atomics.store(words, Word.SNAPSHOT_THREAD, threadId + 1);
  if (!drained(timeoutMs)) {
    open();
    throw new AclError(LOCK_TIMEOUT, `${what}: streams have not drained within ${timeoutMs} ms; synchronize them first, or abort what hangs`);
  }
}

function open(): void {
  Atomics.store(words, Word.SNAPSHOT_THREAD, 0);
  Atomics.store(words, Word.SNAPSHOT, SnapshotState.RUNNING);
}

export function unlockProcess(): void {
  const what = "snap_shot_process_unlock";
  expect(SnapshotState.LOCKED, UNLOCK, what);
  open();
  call(SnapshotStage.UNLOCK_POST, what);
}

/** Takes the contents of device memory to the host. */
export function backupProcess(): void {
  const what = "snap_shot_process_backup";
  expect(SnapshotState.LOCKED, BACKUP, what);
  call(SnapshotStage.BACKUP_PRE, what);
  saved = [...devicesHere()].flatMap((device) =>
    allocationsOf(device)
      .filter((offset) => !(ownerAt(device, offset) & OwnerBit.PINNED))
      .map((offset) => {
        const { bytes, core } = device.machine;
        const own = bytes.subarray(offset, offset + (core.allocationBytes(offset) >>> 0));
        const copy = Buffer.from(own);
        own.fill(0); // what the device had is given up
        return { device, offset, bytes: copy };
      }),
  );
  Atomics.store(words, Word.SNAPSHOT, SnapshotState.BACKED_UP);
  call(SnapshotStage.BACKUP_POST, what);
}

export function restoreProcess(): void {
  const what = "snap_shot_process_restore";
  expect(SnapshotState.BACKED_UP, RESTORE, what);
  call(SnapshotStage.RESTORE_PRE, what);
  for (const { device, offset, bytes } of saved) {
    device.machine.bytes.set(bytes, offset);
  }
  saved = [];
  Atomics.store(words, Word.SNAPSHOT, SnapshotState.LOCKED);
  call(SnapshotStage.RESTORE_POST, what);
}

export function registerSnapshot(stage: SnapshotStage, callback: SnapshotCallback, args: unknown): void {
  callbacks.push({ stage, callback, args });
}

/** @throws AclError 507913 if it is not registered for the stage */
export function unregisterSnapshot(stage: SnapshotStage, callback: SnapshotCallback): void {
  const at = callbacks.findIndex((one) => one.stage === stage && one.callback === callback);
  if (at < 0) {
    throw new AclError(NO_CALLBACK, `snap_shot_callback_unregister: the function is not registered for stage ${SnapshotStage[stage]}`);
  }
  callbacks.splice(at, 1);
}

function checkOpen(what: string): void {
  if (snapshotState() === SnapshotState.RUNNING) {
    return; // what nearly every launch sees
  }
  const end = performance.now() + PATIENCE_MS;
  while (snapshotState() !== SnapshotState.RUNNING) {
    if (Atomics.load(words, Word.SNAPSHOT_THREAD) === threadId + 1) {
      throw new AclError(LOCK, `${what}: this thread has locked the process for a snapshot; call snap_shot_process_unlock first`);
    }
    if (performance.now() > end) {
      throw new AclError(LOCK_TIMEOUT, `${what}: another thread keeps the process locked for a snapshot`);
    }
    nap(1);
  }
}
launchGuards.push(checkOpen);
allocationGuards.push(checkOpen);
guards.push((_device, _offset, _sizeBytes, what) => {
  if (snapshotState() === SnapshotState.BACKED_UP) {
    throw new AclError(BACKUP, `${what}: device memory is backed up; call snap_shot_process_restore first`);
  }
});

export function forgetSnapshot(): void {
  callbacks.length = 0;
  saved = [];
  if (Atomics.load(words, Word.SNAPSHOT_THREAD) === threadId + 1) {
    open();
  }
}
