/** What the REPL shows of the devices of its thread: tables of devices, streams and memory, and programs as text. */
import { devicesHere } from "../acl/devices";
import { streamView } from "../acl/streams";
import { Layout, PoolTag, Stream, StreamState, Task, TaskOp } from "../host/layout";
import { disassemble } from "../program/disassemble";
import { deviceAddress, hostAddress } from "../runtime/address";
import { ContextCore } from "../runtime/context-core";
import { type DeviceCore, openDevices } from "../runtime/device-core";
import type { Model } from "../runtime/model";
import type { ModelEntry } from "../runtime/model-entries";
import { formatBytes, table } from "./output";

/** Allocations that a table of memory names, largest first. */
const LARGEST = 10;

const aclDevice = (core: DeviceCore): ReturnType<typeof streamView>["device"] | undefined => [...devicesHere()].find((one) => one.core === core);

function perDevice(view: (core: DeviceCore) => string): string {
  const cores = [...openDevices.values()].filter(({ machine }) => machine.lost === undefined);
  return cores.length === 0 ? "no device is open in this thread" : cores.map(view).join("\n");
}

export function devicesView(): string {
  const rows = [...openDevices.values()].map((core) => {
    const { machine, options, index } = core;
    const face = aclDevice(core) === undefined ? "npurt" : "npurt/acl";
    if (machine.lost !== undefined) {
      return [`${index}`, face, "lost", "", "", ""];
    }
    const memory = `${formatBytes(machine.core.poolLive() >>> 0)} of ${formatBytes(machine.bytes.length)}`;
    const inFlight = core.liveStreams().reduce((sum, [stream, tail]) => sum + tail - machine.core.fence(stream), 0);
    return [`${index}`, face, options.driver, `${machine.cores}`, memory, `${inFlight}`];
  });
  return rows.length === 0 ? perDevice(() => "") : table([["device", "face", "driver", "cores", "memory", "tasks in flight"], ...rows], "");
}

function streamRow(core: DeviceCore, stream: number): string[] {
  const { machine } = core;
  const word = (field: number): number => Atomics.load(machine.words, (Layout.STREAMS + stream * Stream.SIZE + field) >> 2);
  const [fence, tail] = [machine.core.fence(stream), machine.core.tail(stream)];
  // A task that retires while we look has left its slot as it was.
  const slot = word(Stream.RING) + ((fence + 1) & word(Stream.MASK)) * Task.SIZE;
  const head = fence < tail ? (TaskOp[machine.bytes[slot + Task.OP] as number] ?? "") : "";
  const mode = ContextCore.of(core, word(Stream.CONTEXT)).stops ? "STOP" : "CONTINUE";
  const acl = aclDevice(core);
  const handle = acl === undefined ? "" : `0x${streamView(acl, stream).handle.toString(16)}`;
  const state = StreamState[word(Stream.STATE)] as string;
  const error = word(Stream.ERROR) === 0 ? "" : `${word(Stream.ERROR)}`;
  return [`${stream}`, `${word(Stream.CONTEXT)}`, `${word(Stream.PRIORITY)}`, mode, state, `${tail - fence}`, head.toLowerCase(), error, handle];
}

export function streamsView(): string {
  return perDevice((core) => {
    const { machine } = core;
    const streams = Array.from({ length: machine.streamHigh }, (_, stream) => stream).filter(
      (stream) => Atomics.load(machine.words, (Layout.STREAMS + stream * Stream.SIZE + Stream.STATE) >> 2) !== StreamState.FREE,
    );
    const title = `device ${core.index}: ${streams.length} stream${streams.length === 1 ? "" : "s"}`;
    if (streams.length === 0) {
      return title;
    }
    const names = ["stream", "context", "priority", "mode", "state", "tasks", "head", "error", "handle"];
    return `${title}\n${table([names, ...streams.map((stream) => streamRow(core, stream))])}`;
  });
}

export function memoryView(): string {
  return perDevice((device) => {
    const { machine, index } = device;
    const { core } = machine;
    const bytes = (value: number): string => formatBytes(value >>> 0);
    const lines = [
      `device ${index}: ${bytes(core.poolLive())} used, ${bytes(core.poolPeak())} at most, ${bytes(core.poolFree())} free, largest free block ${bytes(core.poolLargestFree())}`,
    ];
    const found: { start: number; size: number; tag: PoolTag }[] = [];
    for (let start = core.nextAllocation(0) >>> 0; start !== 0; start = core.nextAllocation(start) >>> 0) {
      found.push({ start, size: core.allocationBytes(start) >>> 0, tag: core.allocationTag(start) });
    }
    found.sort((a, b) => b.size - a.size);
    const rows = found.slice(0, LARGEST).map(({ start, size, tag }) => {
      const address = tag === PoolTag.PINNED ? hostAddress(index, start) : deviceAddress(index, start);
      return [PoolTag[tag]?.toLowerCase() ?? `${tag}`, bytes(size), `0x${address.toString(16)}`];
    });
    if (rows.length > 0) {
      lines.push(table([["owner", "size", "address"], ...rows]));
    }
    if (found.length > LARGEST) {
      lines.push(`  ... and ${found.length - LARGEST} smaller allocations`);
    }
    return lines.join("\n");
  });
}

/** Programs of the loaded models that `wanted` accepts, for the shapes of the latest run. */
export async function programsView(wanted: (model: Model) => boolean): Promise<string> {
  const models = await Promise.all([...openDevices.values()].flatMap((core) => [...(core.models as Set<ModelEntry>)].map(({ loading }) => loading)));
  return models
    .filter(wanted)
    .flatMap(({ name, device, latest, info }) => (latest === undefined ? [] : [{ name, device, latest, info }]))
    .map(({ name, device, latest, info }) => `${name} on device ${device.index}\n${disassemble(latest.program.image, info.inputs.length).trimEnd()}`)
    .join("\n\n");
}
