import { type Timeline, type TimelineEvent, toTimeline } from "../../../dist/lib/diag/timeline";
import { readTrace, type TraceRecord } from "../../../dist/lib/diag/trace";

// The ring is written here by the numbers of asm/abi/device.ts, not by its names: a moved field must fail a test.
const HEADER = 0x400;
const RING = 0x10000;
const SLOTS = 8;
const PROGRAM = 0x20000;

interface Raw {
  kind: number;
  core: number;
  stream: number;
  op: number;
  sequence: bigint;
  node?: number;
  tile?: number;
  start: number;
  end: number;
  program?: number;
}

function device(index = 3): DataView {
  const view = new DataView(new SharedArrayBuffer(0x30000));
  view.setUint32(HEADER, 0x74727570, true);
  view.setUint32(HEADER + 0x10, index, true);
  view.setUint32(HEADER + 0x240, RING, true);
  view.setUint32(HEADER + 0x244, SLOTS - 1, true);
  return view;
}

function put(view: DataView, raw: Raw): void {
  const slot = view.getUint32(HEADER + 0x280, true);
  const at = RING + (slot % SLOTS) * 64;
  view.setUint32(at, raw.kind, true);
  view.setUint32(at + 4, raw.core, true);
  view.setUint32(at + 8, raw.stream, true);
  view.setUint32(at + 12, raw.op, true);
  view.setBigUint64(at + 16, raw.sequence, true);
  view.setUint32(at + 24, raw.node ?? 0, true);
  view.setUint32(at + 28, raw.tile ?? 0, true);
  view.setFloat64(at + 32, raw.start, true);
  view.setFloat64(at + 40, raw.end, true);
  view.setUint32(at + 48, raw.program ?? 0, true);
  view.setUint32(at + 52, slot + 1, true);
  view.setUint32(HEADER + 0x280, slot + 1, true);
}

function putProgram(view: DataView, nodes: readonly string[]): void {
  const text = nodes.map((name) => new TextEncoder().encode(name));
  const bytes = 4 + 4 * (nodes.length + 1) + text.reduce((sum, t) => sum + t.length, 0);
  view.setUint32(PROGRAM, 0x7270706e, true);
  view.setUint32(PROGRAM + 44, 64, true);
  view.setUint32(PROGRAM + 48, bytes, true);
  const debug = PROGRAM + 64;
  view.setUint32(debug, nodes.length, true);
  let at = 4 + 4 * (nodes.length + 1);
  for (const [i, t] of text.entries()) {
    view.setUint32(debug + 4 + 4 * i, at, true);
    new Uint8Array(view.buffer).set(t, debug + at);
    at += t.length;
  }
  view.setUint32(debug + 4 + 4 * nodes.length, at, true);
}

const TASK = 0;
const TILE = 1;
const RUN = 2;

describe("readTrace", () => {
  test("reads whole records oldest first, with names, and 64-bit sequences", () => {
    const view = device();
    putProgram(view, ["conv1", "größe"]);
    put(view, { kind: TASK, core: 1, stream: 2, op: 2, sequence: 2n ** 32n + 5n, start: 10, end: 12 });
    put(view, { kind: TILE, core: 0, stream: 4, op: 4, sequence: 7n, node: 1, tile: 9, start: 11, end: 13.5, program: PROGRAM });
    put(view, { kind: RUN, core: 0, stream: 4, op: 1, sequence: 7n, start: 10.5, end: 14 });
    const trace = readTrace(view.buffer as SharedArrayBuffer);
    expect(trace).toEqual({
      device: 3,
      lost: 0,
      next: 3,
      records: [
        { kind: "task", core: 1, stream: 2, op: "COPY", sequence: 4294967301, node: undefined, tile: 0, startUs: 10, endUs: 12 },
        { kind: "tile", core: 0, stream: 4, op: "MATMUL", sequence: 7, node: "größe", tile: 9, startUs: 11, endUs: 13.5 },
        { kind: "run", core: 0, stream: 4, op: "RUN", sequence: 7, node: undefined, tile: 0, startUs: 10.5, endUs: 14 },
      ],
    });
  });

  test("counts what the ring lost, reads on from `next`, and leaves out a record that is being written", () => {
    const view = device();
    for (let i = 0; i < SLOTS + 3; i++) put(view, { kind: TASK, core: 0, stream: 0, op: 0, sequence: BigInt(i), start: i, end: i + 1 });
    const first = readTrace(view.buffer as SharedArrayBuffer);
    expect(first.lost).toBe(3);
    expect(first.records.map((r) => r.sequence)).toEqual([3, 4, 5, 6, 7, 8, 9, 10]);
    put(view, { kind: TASK, core: 0, stream: 0, op: 0, sequence: 99n, start: 50, end: 51 });
    const second = readTrace(view.buffer as SharedArrayBuffer, first.next);
    expect(second.records.map((r) => r.sequence)).toEqual([99]);
    view.setUint32(RING + (11 % SLOTS) * 64 + 52, 4, true); // slot 11 still carries slot 3's READY
    expect(readTrace(view.buffer as SharedArrayBuffer, first.next)).toMatchObject({ records: [], lost: 1 });
  });

  test("is empty when tracing is off or the memory is no device", () => {
    const off = device();
    off.setUint32(HEADER + 0x240, 0, true);
    expect(readTrace(off.buffer as SharedArrayBuffer).records).toEqual([]);
    expect(readTrace(new SharedArrayBuffer(65536)).records).toEqual([]);
  });

  test("survives a program whose memory was given back", () => {
    const view = device();
    putProgram(view, ["a"]);
    for (const [offset, value] of [
      [PROGRAM, 0],
      [PROGRAM + 44, 0xfffffff0],
      [PROGRAM + 48, 2],
      [PROGRAM + 64, 0x7fffffff],
    ] as const) {
      const copy = device();
      new Uint8Array(copy.buffer).set(new Uint8Array(view.buffer));
      copy.setUint32(offset, value, true);
      put(copy, { kind: TILE, core: 0, stream: 0, op: 1, sequence: 1n, program: PROGRAM, start: 0, end: 1 });
      expect(readTrace(copy.buffer as SharedArrayBuffer).records[0]?.node).toBeUndefined();
    }
  });
});

function record(fields: Partial<TraceRecord>): TraceRecord {
  return { kind: "tile", core: 0, stream: 1, sequence: 1, op: "MAP", node: undefined, tile: 0, startUs: 0, endUs: 1, ...fields };
}

const timeline = (records: readonly TraceRecord[]): Timeline => toTimeline([{ device: 2, records, lost: 5, next: 0 }], { npurt: "1.2.3" });
const events = (t: Timeline, ...phases: TimelineEvent["ph"][]): TimelineEvent[] => t.traceEvents.filter((e) => phases.includes(e.ph));

describe("toTimeline", () => {
  const records = [
    record({ tile: 1, core: 1, startUs: 5, endUs: 9, node: "conv1", op: "CONV" }),
    record({ tile: 0, core: 0, startUs: 4, endUs: 8.5, node: "conv1", op: "CONV" }),
    record({ tile: 2, core: 0, startUs: 8.25, endUs: 11 }),
    record({ kind: "run", op: "RUN", core: 1, startUs: 3, endUs: 12 }),
    record({ kind: "task", op: "RUN", core: 1, startUs: 3, endUs: 12 }),
    record({ kind: "task", op: "COPY", core: 1, stream: 7, sequence: 4, startUs: 20, endUs: 19 }),
    record({ core: 66, stream: 7, sequence: 5, startUs: 30, endUs: 31 }),
  ];

  test("core tracks hold X events only, and no two of them cross", () => {
    const slices = events(timeline(records), "X");
    expect(slices.map((e) => [e.tid, e.name, e.ts, e.dur])).toEqual([
      [0, "CONV conv1", 4, 4.25],
      [0, "MAP", 8.25, 2.75],
      [1, "CONV conv1", 5, 4],
      [1, "COPY", 20, 0],
      [66, "MAP", 30, 1],
    ]);
    for (const tid of [0, 1]) {
      const track = slices.filter((e) => e.tid === tid);
      for (const [i, e] of track.entries()) {
        const next = track[i + 1];
        if (next) expect((e.ts ?? 0) + (e.dur ?? 0)).toBeLessThanOrEqual(next.ts ?? 0);
      }
    }
  });

  test("async begins and ends pair up per stream track", () => {
    const open = new Map<string, number>();
    for (const e of events(timeline(records), "b", "e")) {
      const key = `${e.cat} ${e.id} ${e.name}`;
      open.set(key, (open.get(key) ?? 0) + (e.ph === "b" ? 1 : -1));
      expect(open.get(key)).toBeGreaterThanOrEqual(0);
    }
    expect([...open.keys()]).toEqual(["stream 2.1 stream 1: RUN", "stream 2.7 stream 7: COPY"]);
    expect([...open.values()]).toEqual([0, 0]);
  });

  test("a flow follows a run from core to core and starts and ends inside a slice", () => {
    const t = timeline(records);
    const flow = events(t, "s", "t", "f");
    expect(flow.map((e) => [e.ph, e.tid, e.ts, e.id])).toEqual([
      ["s", 0, 4, "2.1.1"],
      ["t", 1, 5, "2.1.1"],
      ["f", 0, 8.25, "2.1.1"],
    ]);
    for (const e of flow) {
      const at = e.ts ?? -1;
      expect(events(t, "X").some((x) => x.tid === e.tid && (x.ts ?? 0) <= at && at <= (x.ts ?? 0) + (x.dur ?? 0))).toBe(true);
    }
    expect(events(timeline([records[0] as TraceRecord]), "s", "t", "f")).toEqual([]);
  });

  test("names the device and its cores and carries the metadata", () => {
    const t = timeline(records);
    expect(
      events(t, "M")
        .filter((e) => e.name !== "thread_sort_index")
        .map((e) => [e.pid, e.tid, e.args?.["name"]]),
    ).toEqual([
      [2, 0, "npurt device 2"],
      [2, 0, "core 0"],
      [2, 1, "core 1"],
      [2, 66, "host thread 2"],
    ]);
    expect(t.otherData).toEqual({ npurt: "1.2.3", lostRecords: 5 });
    expect(JSON.parse(JSON.stringify(t))).toEqual(t);
  });
});
