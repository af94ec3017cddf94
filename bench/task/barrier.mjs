/**
 * What a region costs when its tiles do nothing, with two cores awake. No model compiles to such a program, so it is encoded here,
 * and its run goes into the stream the way an executor puts it there.
 */
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { Device } from "npurt";
import { median } from "../harness.mjs";

const require = createRequire(import.meta.url);
const { encode } = require("../../dist/lib/program/encode.js");
const { coreOf } = require("../../dist/lib/runtime/internals.js");
const { Frame } = require("../../dist/asm/abi/stream.js");
const { TaskOp } = require("../../dist/asm/abi/task.js");

const REGIONS = 4000;
const ROUNDS = 15;

function emptyProgram(tiles) {
  const instruction = { op: "probe", node: "empty", probe: "nothing", argument: 0, tiles };
  const regions = Array.from({ length: REGIONS }, () => [instruction]);
  return encode({ regions, blobs: [], inputs: 0, outputs: 0, arenaBytes: 0 }).image;
}

export async function measureBarrier() {
  // Cores that look for work for a second do not fall asleep between two rounds.
  const device = await Device.open({ cores: 2, spinUs: 1_000_000 });
  await device.ready();
  const stream = device.createStream();
  const answers = [];
  for (const tiles of [1, 2]) {
    const image = emptyProgram(tiles);
    const program = device.allocate(image.length);
    const frame = device.allocate(256);
    const words = new Uint32Array(64);
    words[Frame.PROGRAM / 4] = program.address % 2 ** 32;
    words[Frame.BINDINGS / 4] = 2;
    stream.memcpy(program, image);
    stream.memcpy(frame, words);
    await stream.synchronize();
    const values = [];
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      coreOf.stream(stream).submit(TaskOp.RUN, frame.address % 2 ** 32);
      await stream.synchronize();
      values.push((performance.now() - start) / REGIONS);
    }
    answers.push({ case: `region barrier, 2 cores awake, ${tiles} tile${tiles > 1 ? "s" : ""}`, value: median(values) });
  }
  await device.close();
  return answers;
}
