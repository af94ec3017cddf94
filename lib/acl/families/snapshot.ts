/** Snapshots of the process. */
import { invalidParam } from "../../errors/make";
import { anything, func, integer, optional } from "../args";
import {
  backupProcess,
  lockProcess,
  registerSnapshot,
  restoreProcess,
  type SnapshotCallback,
  SnapshotStage,
  snapshotState,
  unlockProcess,
  unregisterSnapshot,
} from "../snapshot";
import { call } from "../table";

function checkStage(stage: number, what: string): SnapshotStage {
  if (SnapshotStage[stage] === undefined) {
    throw invalidParam(
      `${what}: stage is ${stage}; pass 0 (before lock), 1, 2 (before, after backup), 3, 4 (before, after restore) or 5 (after unlock)`,
    );
  }
  return stage;
}

export const snapshotCalls = {
  snap_shot_process_lock: call({
    c: "aclrtSnapShotProcessLock",
    args: [integer("timeoutMs")],
    returns: "ret",
    doc: "Lets all streams drain (-1: however long) and locks the process: until the unlock nothing is launched or allocated. 507905 if they do not drain.",
    blocks: true,
    run(ms): void {
      if (ms < -1 || ms === 0) {
        throw invalidParam(`snap_shot_process_lock: timeout is ${ms} ms; pass -1 to wait for ever, or at least 1`);
      }
      lockProcess(ms === -1 ? Number.POSITIVE_INFINITY : ms);
    },
  }),
  snap_shot_process_unlock: call({
    c: "aclrtSnapShotProcessUnlock",
    args: [],
    returns: "ret",
    doc: "Work goes on. 507907 if the process is not locked.",
    run: (): void => unlockProcess(),
  }),
  snap_shot_process_backup: call({
    c: "aclrtSnapShotProcessBackup",
    args: [],
    returns: "ret",
    doc: "Takes the contents of the memory of this thread's devices to the host; they are gone from the device. 507908 unless the process is locked.",
    run: (): void => backupProcess(),
  }),
  snap_shot_process_restore: call({
    c: "aclrtSnapShotProcessRestore",
    args: [],
    returns: "ret",
    doc: "Brings the contents back. 507909 unless they are backed up.",
    run: (): void => restoreProcess(),
  }),
  snap_shot_process_get_state: call({
    c: "aclrtSnapShotProcessGetState",
    args: [],
    returns: "[value, ret]",
    doc: "0 running, 1 locked, 2 backed up.",
    none: 0,
    run: () => snapshotState() as number,
  }),
  snap_shot_callback_register: call({
    c: "aclrtSnapShotCallbackRegister",
    args: [integer("stage"), func<SnapshotCallback>("fn"), optional(anything("args"))],
    returns: "ret",
    doc: "Calls fn(stage, args) at a stage: 0 before lock, 1 and 2 before and after backup, 3 and 4 before and after restore, 5 after unlock. Not 0, or an exception, fails the step with 507912.",
    run(stage, fn, args): void {
      const what = "snap_shot_callback_register";
      registerSnapshot(checkStage(stage, what), fn, args);
    },
  }),
  snap_shot_callback_unregister: call({
    c: "aclrtSnapShotCallbackUnregister",
    args: [integer("stage"), func<SnapshotCallback>("fn")],
    returns: "ret",
    doc: "Takes it away; 507913 if it is not registered.",
    run(stage, fn): void {
      const what = "snap_shot_callback_unregister";
      unregisterSnapshot(checkStage(stage, what), fn);
    },
  }),
};
