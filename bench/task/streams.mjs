/** What streams cost among many: an event that one waits for and another records, and how evenly work is spread over devices. */
import { Device, pickDevice } from "npurt";
import { median } from "../harness.mjs";

const STREAMS = 2000;
const ROUNDS = 31;
/** Edges of one round: a wait and a record each must fit the rings of two streams. */
const EDGES = 100;
const DEVICES = 4;
const PICKS = 2000;

/**
 * Two streams that wait for each other in turn, against one stream that records as many events. All is queued behind a gate before the first
 * task runs, so the host is not in it; the device's own clock says how long it took.
 */
export async function measureEventWait() {
  const device = await Device.open({ cores: 2, spinUs: 1_000_000 });
  await device.ready();
  const streams = Array.from({ length: STREAMS }, () => device.createStream());
  for (const stream of streams) stream.nop();
  for (const stream of streams) await stream.synchronize();
  const gate = device.allocate(8);
  const events = Array.from({ length: EDGES + 1 }, () => device.createEvent());
  const [opener, first, second] = [streams[0], streams[STREAMS >> 1], streams.at(-1)];

  const round = async (submit) => {
    await gate.write(new Uint8Array(8));
    first.waitValue(gate.address, 1n, { compare: "==" });
    first.record(events[0]);
    submit();
    opener.writeValue(gate.address, 1n);
    await first.synchronize();
    await second.synchronize();
    return (events[0].elapsedMs(events[EDGES]) / EDGES) * 1000;
  };
  const alone = () => {
    for (let i = 1; i <= EDGES; i++) first.record(events[i]);
  };
  const across = () => {
    for (let i = 1; i <= EDGES; i++) {
      const stream = i % 2 === 0 ? first : second;
      stream.wait(events[i - 1]);
      stream.record(events[i]);
    }
  };
  const added = [];
  for (let i = 0; i < ROUNDS; i++) {
    const base = await round(alone);
    added.push((await round(across)) - base);
  }
  await device.close();
  return [{ case: `event wait across streams, ${STREAMS} open`, value: median(added) / 1000 }];
}

/** One device has work already; new work goes to the least loaded. How far the fullest then is from the mean. */
export async function measureSpread() {
  const devices = await Promise.all(Array.from({ length: DEVICES }, () => Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 })));
  const streams = devices.map((device) => Array.from({ length: 8 }, () => device.createStream()));
  const given = devices.map(() => 0);
  const give = (index, count) => {
    streams[index][given[index] % 8].nop(count);
    given[index] += count;
  };
  for (let i = 0; i < 8; i++) give(0, 50);
  while (given.reduce((sum, count) => sum + count, 0) < PICKS - 1) give(devices.indexOf(pickDevice(devices, { policy: "leastLoaded" })), 1);
  const mean = given.reduce((sum, count) => sum + count, 0) / DEVICES;
  for (const device of devices) await device.close();
  return [{ case: "leastLoaded, skewed load: fullest device over the mean", value: (Math.max(...given) / mean - 1) * 100, unit: "%" }];
}
