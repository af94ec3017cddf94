/**
 * Turns trace records into a timeline in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.
 * One process per device; one thread per core that holds its tiles and tasks; one async track per stream that holds tasks and runs;
 * a flow ties the tiles of one run together wherever it moves to another core.
 */
import fs from "node:fs";
import { WORKER_LIMIT } from "../../asm/abi/device";
import type { Device } from "../runtime/device";
import { readTrace, type TraceRecord, type TraceSnapshot } from "./trace";

export interface TimelineEvent {
  readonly ph: "X" | "M" | "b" | "e" | "s" | "t" | "f";
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly id?: string;
  readonly bp?: "e";
  readonly args?: Readonly<Record<string, string | number>>;
}

export interface Timeline {
  readonly traceEvents: readonly TimelineEvent[];
  readonly displayTimeUnit: "ns";
  readonly otherData: Readonly<Record<string, string | number>>;
}

/**
 * Writes what the trace of `device` holds to `file`, from time 0 on. The device must have been opened with `trace`.
 * @returns how many events the file has, and how many records the trace had already overwritten
 */
export function writeTimeline(device: Device, file: string): { readonly events: number; readonly lost: number } {
  const { driver, cores, kernels } = device.info();
  const snapshot = readTrace(device.memory);
  const npurt = (require("../../../package.json") as { version: string }).version;
  const { node, v8 } = process.versions;
  const startUs = snapshot.records.reduce((least, record) => Math.min(least, record.startUs), Number.POSITIVE_INFINITY);
  const records = snapshot.records.map((record) => ({ ...record, startUs: record.startUs - startUs, endUs: record.endUs - startUs }));
  const timeline = toTimeline([{ ...snapshot, records }], { npurt, node, v8, driver, cores, kernels: kernels.used });
  fs.writeFileSync(file, JSON.stringify(timeline));
  return { events: timeline.traceEvents.length, lost: snapshot.lost };
}

/** `metadata`: versions and settings that a reader of the timeline needs to make sense of it. */
export function toTimeline(snapshots: readonly TraceSnapshot[], metadata: Readonly<Record<string, string | number>> = {}): Timeline {
  const traceEvents: TimelineEvent[] = [];
  let lost = 0;
  for (const snapshot of snapshots) {
    lost += snapshot.lost;
    traceEvents.push(...names(snapshot), ...coreEvents(snapshot), ...streamEvents(snapshot), ...flowEvents(snapshot));
  }
  return { traceEvents, displayTimeUnit: "ns", otherData: { ...metadata, lostRecords: lost } };
}

/** A run is the work of many cores: only its tiles stand on core tracks. */
const onCore = (record: TraceRecord): boolean => record.kind === "tile" || (record.kind === "task" && record.op !== "RUN");
/** Every record of a stream except its tiles. */
const onStream = (record: TraceRecord): boolean => record.kind !== "tile";

function names({ device, records }: TraceSnapshot): TimelineEvent[] {
  const events: TimelineEvent[] = [{ ph: "M", name: "process_name", pid: device, tid: 0, args: { name: `npurt device ${device}` } }];
  for (const core of distinct(records.filter(onCore).map((record) => record.core))) {
    events.push({ ph: "M", name: "thread_name", pid: device, tid: core, args: { name: trackName(core) } });
    events.push({ ph: "M", name: "thread_sort_index", pid: device, tid: core, args: { sort_index: core } });
  }
  return events;
}

/** Above the worker cores stand the host threads that ran device code themselves. */
const trackName = (core: number): string => (core < WORKER_LIMIT ? `core ${core}` : `host thread ${core - WORKER_LIMIT}`);

function coreEvents({ device, records }: TraceSnapshot): TimelineEvent[] {
  const events: TimelineEvent[] = [];
  for (const core of distinct(records.filter(onCore).map((record) => record.core))) {
    const slices = records.filter((record) => onCore(record) && record.core === core).sort(byStart);
    for (const [index, record] of slices.entries()) {
      const next = slices[index + 1];
      events.push({
        ph: "X",
        name: record.node ? `${record.op} ${record.node}` : record.op,
        cat: record.kind,
        pid: device,
        tid: core,
        ts: record.startUs,
        dur: lengthBefore(record, next),
        args: { stream: record.stream, sequence: record.sequence, ...(record.kind === "tile" ? { tile: record.tile } : {}) },
      });
    }
  }
  return events;
}

/** A core does one thing at a time; where two clock reads disagree by a rounding, the earlier slice ends where the later starts. */
function lengthBefore(record: TraceRecord, next: TraceRecord | undefined): number {
  const end = next === undefined ? record.endUs : Math.min(record.endUs, next.startUs);
  return Math.max(0, end - record.startUs);
}

function streamEvents({ device, records }: TraceSnapshot): TimelineEvent[] {
  const events: TimelineEvent[] = [];
  for (const record of records.filter(onStream).sort(byStart)) {
    const track = { cat: "stream", id: `${device}.${record.stream}`, pid: device, tid: record.core, name: `stream ${record.stream}: ${record.op}` };
    const end = Math.max(record.endUs, record.startUs);
    events.push({ ...track, ph: "b", ts: record.startUs, args: { sequence: record.sequence } }, { ...track, ph: "e", ts: end });
  }
  return events;
}

function flowEvents({ device, records }: TraceSnapshot): TimelineEvent[] {
  const runs = new Map<string, TraceRecord[]>();
  for (const record of records) {
    if (record.kind !== "tile") continue;
    const key = `${record.stream}.${record.sequence}`;
    const tiles = runs.get(key);
    if (tiles === undefined) runs.set(key, [record]);
    else tiles.push(record);
  }
  const events: TimelineEvent[] = [];
  for (const [key, tiles] of runs) {
    tiles.sort(byStart);
    const steps = tiles.filter((tile, index) => index === 0 || tile.core !== tiles[index - 1]?.core);
    if (steps.length < 2) continue;
    for (const [index, tile] of steps.entries()) {
      const at = { name: "run", cat: "run", id: `${device}.${key}`, pid: device, tid: tile.core, ts: tile.startUs };
      if (index === 0) events.push({ ...at, ph: "s" });
      else events.push({ ...at, ph: index === steps.length - 1 ? "f" : "t", bp: "e" });
    }
  }
  return events;
}

const byStart = (a: TraceRecord, b: TraceRecord): number => a.startUs - b.startUs || b.endUs - a.endUs;

function distinct(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}
