/** Faults on the bare core: what traps, who notices, and that nobody else does. */
import { Context, Core, Layout, Phase } from "../../dist/asm/abi/device";
import { Frame, Stream, StreamState } from "../../dist/asm/abi/stream";
import { Probe, Task, TaskOp } from "../../dist/asm/abi/task";
import { Machine, mix, trapOf } from "./machine";

const streamWord = (machine: Machine, stream: number, field: number) => machine.words[(Layout.STREAMS + stream * Stream.SIZE + field) >> 2]!;
const contextWord = (context: number, field: number) => (Layout.CONTEXTS + context * Context.SIZE + field) >> 2;

describe.each([
  ["unreachable", Probe.UNREACHABLE, 1],
  ["an address beyond memory", Probe.OUT_OF_BOUNDS, 2],
  ["a division by zero", Probe.DIVIDE_BY_ZERO, 3],
])("%s in one of nine tiles", (_, probe, trap) => {
  test("fails its run and nothing else, a thousand times in a row", () => {
    const machine = new Machine({ cores: 3, seed: 7 + trap });
    const [bad, good] = [machine.context(), machine.context()];
    const [hit, same, other] = [machine.stream(bad), machine.stream(bad), machine.stream(good)];
    const words = machine.allocate(192);
    const broken = machine.program([
      [
        [Probe.COUNT, 4, 0],
        [probe, 1, 0],
        [Probe.COUNT, 4, 0],
      ],
      [[Probe.COUNT, 1, 0]],
    ]);
    const frame = machine.frame(broken.address, machine.allocate(64));
    const expected = [0, 0, 0];
    for (let round = 1; round <= 1000; round++) {
      machine.words[(frame + Frame.STATUS) >> 2] = 1;
      machine.host.submit(hit, TaskOp.RUN, frame, 0, 0, 0, 0, 0);
      [hit, same, other].forEach((stream, i) => {
        machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, round, words + i * 64, 0, 0, 0);
        expected[i] = mix(expected[i]!, round);
      });
      machine.drain([hit, same, other]);
      expect(machine.words[(frame + Frame.STATUS) >> 2]).toBe(507015);
      expect(streamWord(machine, hit, Stream.ERROR)).toBe(507015);
    }
    expect(expected.map((_, i) => machine.words[(words + i * 64) >> 2])).toEqual(expected);
    expect(streamWord(machine, hit, Stream.FAILURES)).toBe(1000);
    expect(streamWord(machine, same, Stream.ERROR)).toBe(0);
    expect(streamWord(machine, other, Stream.ERROR)).toBe(0);
  });

  test("as a task of its own retires that task with the code", () => {
    const machine = new Machine({ cores: 2, seed: 3 });
    const stream = machine.stream(machine.context());
    machine.host.submit(stream, TaskOp.PROBE, probe, 0, 0, 0, 0, 0);
    machine.drain([stream]);
    expect(streamWord(machine, stream, Stream.ERROR)).toBe(507015);
    const ring = streamWord(machine, stream, Stream.RING);
    const slot = machine.host.fence(stream) % 256;
    expect(machine.words[(ring + slot * 64 + Task.STATUS) >> 2]).toBe(507015);
  });
});

test("STOP latches the context: every stream's tasks retire unrun with the code until it is cleared", () => {
  const machine = new Machine({ cores: 2, seed: 5 });
  const context = machine.context();
  const [a, b] = [machine.stream(context), machine.stream(context)];
  const word = machine.allocate(64);
  machine.words[contextWord(context, Context.MODE)] = 1;
  machine.host.submit(a, TaskOp.PROBE, Probe.UNREACHABLE, 0, 0, 0, 0, 0);
  machine.drain([a]);
  machine.host.submit(b, TaskOp.PROBE, Probe.MIX, 9, word, 0, 0, 0);
  machine.drain([b]);
  expect(machine.words[word >> 2]).toBe(0);
  expect(machine.words[contextWord(context, Context.ERROR)]).toBe(507015);
  expect(streamWord(machine, b, Stream.ERROR)).toBe(507015);
  machine.words[contextWord(context, Context.ERROR)] = 0;
  machine.host.submit(b, TaskOp.PROBE, Probe.MIX, 9, word, 0, 0, 0);
  machine.drain([b]);
  expect(machine.words[word >> 2]).toBe(9);
});

test("a stopped stream keeps its tasks, an aborting one retires them unrun", () => {
  const machine = new Machine({ cores: 1, seed: 5 });
  const stream = machine.stream(machine.context());
  const word = machine.allocate(64);
  const state = (Layout.STREAMS + stream * Stream.SIZE + Stream.STATE) >> 2;
  machine.words[state] = StreamState.STOPPED;
  machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, 9, word, 0, 0, 0);
  for (let i = 0; i < 20; i++) expect(machine.stepSomeone(8)).toBe(0);
  machine.words[state] = StreamState.LIVE;
  machine.host.kick(stream);
  machine.drain([stream]);
  expect(machine.words[word >> 2]).toBe(9);
  machine.words[state] = StreamState.ABORTING;
  machine.host.submit(stream, TaskOp.PROBE, Probe.MIX, 5, word, 0, 0, 0);
  machine.drain([stream]);
  expect(machine.words[word >> 2]).toBe(9);
  expect(streamWord(machine, stream, Stream.ERROR)).toBe(107023);
});

test("a cancelled run retires with the caller's code and does not count as a failure of its stream", () => {
  const machine = new Machine({ cores: 1, seed: 5 });
  const stream = machine.stream(machine.context());
  const program = machine.program([[[Probe.COUNT, 2, 0]], [[Probe.COUNT, 2, 0]]]);
  const data = machine.allocate(64);
  const frame = machine.frame(program.address, data);
  machine.words[(frame + Frame.CANCEL) >> 2] = 107035;
  machine.host.submit(stream, TaskOp.RUN, frame, 0, 0, 0, 0, 0);
  machine.drain([stream]);
  expect(machine.words[(frame + Frame.STATUS) >> 2]).toBe(107035);
  expect(machine.words[data >> 2]).toBe(0);
  expect(streamWord(machine, stream, Stream.ERROR)).toBe(0);
});

test("a core won to KILLED inside a tile must stop, and reap finishes its tile", () => {
  const machine = new Machine({ cores: 2, seed: 5 });
  const stream = machine.stream(machine.context());
  const program = machine.program([
    [
      [Probe.UNREACHABLE, 1, 0],
      [Probe.COUNT, 3, 0],
    ],
  ]);
  const data = machine.allocate(64);
  const frame = machine.frame(program.address, data);
  machine.host.submit(stream, TaskOp.RUN, frame, 0, 0, 0, 0, 0);
  const victim = machine.cores[0]!;
  let thrown: unknown;
  try {
    for (let i = 0; i < 8; i++) victim.step(1);
  } catch (error) {
    thrown = error;
  }
  expect(trapOf(thrown)).toBe(1);
  const phase = (Layout.CORES + Core.PHASE) >> 2;
  expect(machine.words[phase]).toBe(Phase.KERNEL);
  machine.words[phase] = Phase.KILLED; // what the watchdog's CAS does
  expect(victim.recover(507015, 1)).toBe(-1);
  expect(machine.host.reap(0, 507014)).toBe(1);
  machine.cores.splice(0, 1);
  machine.drain([stream]);
  expect(machine.words[(frame + Frame.STATUS) >> 2]).toBe(507014);
  expect(machine.host.reap(0, 507014)).toBe(0);
});
