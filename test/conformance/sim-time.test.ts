/** Virtual time of the sim driver: it moves only when there is nothing else to do, and never past somebody who is already done. */
import { Device } from "npurt";
import { Compare, TaskOp } from "../../dist/asm/abi/task";
import { coreOf } from "../../dist/lib/runtime/internals";

test("a wait with a time-out that is reached does not time out", async () => {
  const device = await Device.open({ driver: "sim", cores: 2, memoryBytes: 64 * 2 ** 20 });
  const stream = device.createStream();
  for (let i = 0; i < 50; i++) {
    stream.nop(3);
    await stream.synchronize({ timeoutMs: 10_000 });
    stream.launch({ probe: "spin", argument: 1000 });
    stream.synchronizeSync(10_000);
  }
  await device.close();
});

test("a wait for a word times out at its virtual time, at once on the wall", async () => {
  const device = await Device.open({ driver: "sim", cores: 2, memoryBytes: 64 * 2 ** 20 });
  const stream = device.createStream();
  const word = device.allocatePinned(64);
  word.bytes.fill(0);
  const before = performance.now();
  const [oneMinuteMs, offset] = [60_000, word.address - 2 ** 44 - device.id * 2 ** 32];
  coreOf.stream(stream).submit(TaskOp.WAIT_VALUE, offset, 1, 0, oneMinuteMs, Compare.EQUAL);
  await expect(stream.synchronize()).rejects.toMatchObject({ code: 107020 });
  expect(performance.now() - before).toBeLessThan(30_000);
  await device.close();
});
