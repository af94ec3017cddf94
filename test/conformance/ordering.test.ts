/** Notifies and words that streams wait for, on every driver; and the choice among devices. */
import { AclError, Device, pickDevice } from "npurt";

const DRIVERS = ["threads", "sim", "inline"] as const;

describe.each(DRIVERS)("%s", (driver) => {
  let device: Device;
  beforeEach(async () => {
    device = await Device.open({ driver, cores: 2, memoryBytes: 32 * 2 ** 20 });
  });
  afterEach(() => device.close());

  test("a notify lets one wait through per record", async () => {
    const [first, second] = [device.createStream(), device.createStream()];
    const notify = device.createNotify();
    notify.wait(first);
    notify.wait(first);
    await expect(first.synchronize({ timeoutMs: 20 })).rejects.toMatchObject({ code: 507046 });
    notify.record(second);
    await second.synchronize();
    await expect(first.synchronize({ timeoutMs: 20 })).rejects.toMatchObject({ code: 507046 });
    notify.record(second);
    await first.synchronize();
    notify.destroy();
    expect(() => notify.record(second)).toThrow(AclError);
  });

  test("waitValue compares, and times out with 107020", async () => {
    const [first, second] = [device.createStream(), device.createStream()];
    const words = device.allocatePinned(16);
    words.bytes.fill(0);
    first.waitValue(words, 5n, { compare: ">=" });
    first.waitValue(words, 2n ** 40n, { compare: "==" });
    first.waitValue(words, 6n, { compare: "&" });
    for (const value of [7n, 2n ** 40n, 4n]) {
      await expect(first.synchronize({ timeoutMs: 20 })).rejects.toMatchObject({ code: 507046 });
      second.writeValue(words, value);
      await second.synchronize();
      if (driver === "threads") await new Promise((resolve) => setTimeout(resolve, 20)); // a word is looked at every millisecond
    }
    await first.synchronize();
    first.waitValue(words, 9n, { compare: "==", timeoutMs: 30 });
    await expect(first.synchronize()).rejects.toMatchObject({ code: 107020 });
    expect(() => first.waitValue(words.address + 4, 1n)).toThrow(expect.objectContaining({ code: 107008 }));
    expect(() => first.waitValue(words, 1n, { compare: "<" as never })).toThrow(expect.objectContaining({ code: 107000 }));
  });
});

test("pickDevice: in turn, by tasks in flight, by free memory", async () => {
  const devices = await Promise.all([0, 1, 2].map(() => Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 })));
  try {
    const turns = Array.from({ length: 6 }, () => devices.indexOf(pickDevice(devices)));
    expect(turns.slice(3)).toEqual(turns.slice(0, 3));
    expect([...turns.slice(0, 3)].sort()).toEqual([0, 1, 2]);

    // A skewed load: device 0 starts with 30 tasks; 60 more are spread so that all have 30.
    const streams = devices.map((device) => device.createStream());
    const given = [30, 0, 0];
    streams[0]?.nop(30);
    for (let task = 0; task < 60; task++) {
      const index = devices.indexOf(pickDevice(devices, { policy: "leastLoaded" }));
      streams[index]?.nop();
      given[index] = (given[index] as number) + 1;
    }
    expect(given).toEqual([30, 30, 30]);

    devices[0]?.allocate(2 ** 20);
    devices[2]?.allocate(2 ** 21);
    expect(pickDevice(devices, { policy: "memory" })).toBe(devices[1]);
    expect(() => pickDevice(devices, { policy: "leastLoadd" as never })).toThrow(/did you mean "leastLoaded"/);
    expect(() => pickDevice([])).toThrow(AclError);
    await devices[1]?.close();
    expect(pickDevice(devices, { policy: "memory" })).toBe(devices[0]);
  } finally {
    await Promise.all(devices.map((device) => device.close()));
  }
  expect(() => pickDevice(devices)).toThrow(expect.objectContaining({ code: 207004 }));
});
