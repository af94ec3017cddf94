"use strict";
/** Buffers that are written, read and forgotten: prints how many allocations of the device are left when the garbage collector has been. */
const { setTimeout: sleep } = require("node:timers/promises");
const { Device } = require("npurt");

const BUFFERS = 40;
const BYTES = 2 ** 16;

async function use(device) {
  const data = new Uint8Array(BYTES).fill(3);
  for (let i = 0; i < BUFFERS; i++) {
    const buffer = device.allocate(BYTES);
    await buffer.write(data, 0);
    if ((await buffer.read()).some((byte) => byte !== 3)) throw new Error("other bytes came back");
  }
}

async function main() {
  const device = await Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 });
  const used = () => device.info().usedBytes;
  const before = used();
  await use(device);
  const most = used() - before;
  for (let look = 0; look < 100 && used() - before >= BYTES; look++) {
    globalThis.gc();
    await sleep(10);
    device.allocate(64).dispose(); // looks what may go back
  }
  console.log(JSON.stringify({ most, left: used() - before }));
  await device.close();
}
main();
