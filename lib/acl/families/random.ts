/** Random numbers in stream order, and new parameters for queued tasks. */
import { Distribution, Random } from "../../../asm/abi/task";
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { DTYPES, type DtypeName } from "../../graph/dtype";
import { TaskOp } from "../../host/layout";
import { resolve, resolveOn } from "../addresses";
import { dict, handle, integer } from "../args";
import { checkCount } from "../copies";
import { dtypeOf } from "../dtypes";
import { type AclStream, checkLaunch, destroyHooks, noteTask, ownStream, submitTask } from "../streams";
import { call } from "../table";

/** A number, or {addr}: where in device memory it stands when the task runs. */
export type Parameter = number | bigint | { readonly addr: number };
export interface RandomInfo {
  readonly dataType?: number;
  /** 0 dropout mask, 1 uniform, 2 normal, 3 truncated normal. */
  readonly funcType?: number;
  readonly paramInfo?: Readonly<Record<string, Parameter>>;
  readonly randomParaAddr?: number;
  readonly randomResultAddr?: number;
  readonly randomCounterAddr?: number;
  readonly randomSeed?: Parameter;
  readonly randomNum?: Parameter;
}
export interface UpdateInfo {
  readonly id?: number;
  readonly srcAddr?: number;
  readonly size?: number;
}

const PARAMETERS: Readonly<Record<Distribution, readonly [string, string | undefined]>> = {
  [Distribution.DROPOUT_MASK]: ["dropoutRation", undefined],
  [Distribution.UNIFORM]: ["min", "max"],
  [Distribution.NORMAL]: ["mean", "stddev"],
  [Distribution.TRUNCATED_NORMAL]: ["mean", "stddev"],
};
const REALS: readonly DtypeName[] = ["float32", "float16", "bfloat16"];
const WHOLE: readonly DtypeName[] = ["int32", "uint32", "int64", "uint64"];
/** Least value and end of each whole dtype; those of 64 bits end where float64 can still say so. */
const RANGES: Readonly<Partial<Record<DtypeName, readonly [number, number]>>> = {
  int32: [-(2 ** 31), 2 ** 31],
  uint32: [0, 2 ** 32],
  int64: [-(2 ** 63), 2 ** 63 - 1024],
  uint64: [0, 2 ** 64 - 2048],
};
enum Bit {
  SEED = 1,
  COUNT = 2,
  FIRST = 4,
  SECOND = 8,
}
enum Update {
  RANDOM_TASK = 1,
  KERNEL_TASK,
}
const MOST = 2 ** 40;
const KEPT = 1024;

/** Parameter records of queued random tasks: offset by task, of each stream. */
const records = new Map<number, Map<number, number>>();
destroyHooks.add(({ handle: stream }) => records.delete(stream));

/** Writes `value` as a 64-bit word or a float64, or the address of one with its bit set. */
function put(view: DataView, field: number, bit: Bit, value: Parameter, name: string): void {
  if (typeof value === "object") {
    view.setBigUint64(field, BigInt(value.addr), true);
    view.setUint32(Random.INDIRECT, view.getUint32(Random.INDIRECT, true) | bit, true);
  } else if (bit === Bit.SEED || bit === Bit.COUNT) {
    view.setBigUint64(field, BigInt.asUintN(64, BigInt(value)), true);
  } else if (Number.isFinite(Number(value))) {
    view.setFloat64(field, Number(value), true);
  } else {
    throw invalidParam(`random_num_async: ${name} is ${String(value)}; pass a finite number, or {addr}`);
  }
}

function checkParameters(distribution: Distribution, dtype: DtypeName, first: Parameter, second: Parameter): void {
  const allowed = distribution === Distribution.UNIFORM ? [...REALS, ...WHOLE] : REALS;
  if (distribution !== Distribution.DROPOUT_MASK && !allowed.includes(dtype)) {
    throw new AclError(100026, `random_num_async: ${Distribution[distribution]} of ${dtype}; pass one of ${allowed.join(", ")}`);
  }
  const [a, b] = [first, second].map((one) => (typeof one === "object" ? undefined : Number(one)));
  const [least, end] = (distribution === Distribution.UNIFORM ? RANGES[dtype] : undefined) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const outside = [a, b].some((one) => one !== undefined && (one < least || one > end || (Number.isFinite(least) && !Number.isInteger(one))));
  if (outside) {
    throw invalidParam(`random_num_async: ${String(a)} to ${String(b)} are no ${dtype} numbers; pass whole ones from ${least} to ${end}`);
  }
  const wrong =
    distribution === Distribution.DROPOUT_MASK
      ? a !== undefined && !(a >= 0 && a <= 1)
      : distribution === Distribution.UNIFORM
        ? a !== undefined && b !== undefined && !(a < b)
        : b !== undefined && !(b >= 0);
  if (wrong) {
    throw invalidParam(
      `random_num_async: parameters ${String(a)} and ${String(b)} of ${Distribution[distribution]}; a share is 0 to 1, min < max, stddev >= 0`,
    );
  }
}

/** The record that the task reads. */
function recordOf(stream: AclStream, info: RandomInfo, what: string): Uint8Array {
  const distribution = info.funcType as Distribution;
  const names = PARAMETERS[distribution];
  if (names === undefined) {
    throw invalidParam(`${what}: funcType is ${String(info.funcType)}; pass 0 (dropout mask), 1 (uniform), 2 (normal) or 3 (truncated normal)`);
  }
  const dtype = dtypeOf(info.dataType ?? 0, what);
  const [first, second] = names.map((name) => (name === undefined ? 0 : info.paramInfo?.[name])) as [Parameter | undefined, Parameter | undefined];
  if (first === undefined || second === undefined || info.randomSeed === undefined || info.randomNum === undefined) {
    throw invalidParam(`${what}: paramInfo needs ${names.filter(Boolean).join(" and ")}, and randomSeed and randomNum must be there`);
  }
  checkParameters(distribution, dtype, first, second);
  const record = new Uint8Array(Random.SIZE);
  const view = new DataView(record.buffer);
  view.setUint32(Random.DISTRIBUTION, distribution, true);
  view.setUint32(Random.DTYPE, DTYPES[dtype].code, true);
  view.setBigUint64(Random.TARGET, BigInt(info.randomResultAddr ?? 0), true);
  view.setBigUint64(Random.COUNTER, BigInt(info.randomCounterAddr ?? 0), true);
  put(view, Random.SEED, Bit.SEED, info.randomSeed, "randomSeed");
  put(view, Random.COUNT, Bit.COUNT, info.randomNum, "randomNum");
  put(view, Random.FIRST, Bit.FIRST, first, names[0]);
  put(view, Random.SECOND, Bit.SECOND, second, names[1] ?? "");
  checkMemory(stream, info, distribution, dtype, what);
  return record;
}

function checkMemory(stream: AclStream, info: RandomInfo, distribution: Distribution, dtype: DtypeName, what: string): void {
  const { device } = stream;
  const { randomNum, randomResultAddr = 0, randomCounterAddr = 0 } = info;
  let bytes = 1;
  if (typeof randomNum !== "object") {
    const count = Number(randomNum);
    if (!Number.isInteger(count) || count < 1 || count >= MOST) {
      throw invalidParam(`${what}: randomNum is ${String(randomNum)}; pass 1 to ${MOST - 1}`);
    }
    bytes = distribution === Distribution.DROPOUT_MASK ? Math.ceil(count / 8) : count * DTYPES[dtype].bytes;
  }
  resolveOn(device, randomResultAddr, bytes, `${what}: randomResultAddr`);
  if (randomCounterAddr !== 0) {
    resolveOn(device, randomCounterAddr, 8, `${what}: randomCounterAddr`);
  }
  for (const value of [info.randomSeed, randomNum, ...Object.values(info.paramInfo ?? {})]) {
    if (typeof value === "object") {
      resolveOn(device, value.addr, value === info.randomSeed || value === randomNum ? 8 : DTYPES[dtype].bytes, `${what}: addr`);
    }
  }
}

export const randomCalls = {
  random_num_async: call({
    c: "aclrtRandomNumAsync",
    args: [dict<RandomInfo>("taskInfo"), handle("stream")],
    returns: "ret",
    doc: "Philox numbers in stream order: {dataType, funcType: 0 dropout mask, 1 uniform, 2 normal, 3 truncated normal, paramInfo: {dropoutRation} or {min, max} or {mean, stddev}, randomSeed, randomNum, randomResultAddr, randomCounterAddr?, randomParaAddr?}. A value may be {addr}, read when the task runs.",
    run(info, streamHandle): void {
      const what = "random_num_async";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const record = recordOf(stream, info, what);
      const { machine } = stream.device;
      if (info.randomParaAddr === undefined || info.randomParaAddr === 0) {
        machine.bytes.set(record, machine.mailbox);
        noteTask(machine.submitWithArguments(stream.index, TaskOp.RANDOM, Random.SIZE));
        return;
      }
      const at = resolveOn(stream.device, info.randomParaAddr, Random.SIZE, `${what}: randomParaAddr`);
      if (at % 8 !== 0) {
        throw new AclError(107008, `${what}: randomParaAddr is not a multiple of 8; align it`);
      }
      machine.bytes.set(record, at);
      const sequence = submitTask(stream, what, TaskOp.RANDOM, at);
      const own = records.get(stream.handle) ?? new Map<number, number>();
      records.set(stream.handle, own);
      own.set(sequence % 2 ** 32, at);
      if (own.size > KEPT) {
        own.delete(own.keys().next().value as number);
      }
    },
  }),
  task_update_async: call({
    c: "aclrtTaskUpdateAsync",
    args: [handle("taskStream"), integer("taskId"), dict<UpdateInfo>("info"), handle("execStream")],
    returns: "ret",
    doc: "When execStream gets there, the parameters of a queued random task (id 1) become the record of `size` (64) bytes at `srcAddr`, as random_num_async leaves one at randomParaAddr. Other tasks, and one that has run, give 207019.",
    run(taskStream, taskId, { id, srcAddr = 0, size = 0 }, execStream): void {
      const what = "task_update_async";
      const [stream, exec] = [ownStream(taskStream, what), ownStream(execStream, what)];
      checkLaunch(exec, what);
      if (id !== Update.RANDOM_TASK && id !== Update.KERNEL_TASK) {
        throw invalidParam(`${what}: id is ${String(id)}; pass 1 (random task)`);
      }
      const at = id === Update.RANDOM_TASK ? records.get(stream.handle)?.get(taskId) : undefined;
      if (at === undefined || stream.device.machine.core.fence(stream.index) % 2 ** 32 >= taskId) {
        const why = at === undefined ? "is no random task of this thread with parameters in device memory (randomParaAddr)" : "has run";
        throw new AclError(
          207019,
          `${what}: task ${taskId} of ${stream.core.name} ${why}; kernels take new arguments with kernel_args_para_update before their launch`,
        );
      }
      checkCount(size, Random.SIZE, what);
      resolve(srcAddr, Random.SIZE, `${what}: srcAddr`);
      const from = resolveOn(exec.device, srcAddr, size, `${what}: srcAddr`);
      submitTask(exec, what, TaskOp.COPY, at, from, size);
    },
  }),
};

export function forgetRandom(): void {
  records.clear();
}
