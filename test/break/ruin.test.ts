/** A wild write into the allocator's own words loses the device with a typed error, not the process. */
import { Device } from "npurt";
import { coreOf } from "../../dist/lib/runtime/internals";

test("an overwritten free list", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 });
  const { machine } = coreOf.device(device);
  const [low, high] = [machine.allocate(4032, 1, "test"), machine.allocate(4032, 1, "test")];
  machine.release(low);
  // the header of the freed block: its links point beyond memory
  machine.words.fill(0xffff_ff00, (low - 64 + 24) >> 2, (low - 64 + 32) >> 2);
  expect(high).toBeGreaterThan(low);
  const take = (): void => {
    for (let i = 0; i < 64; i++) device.allocate(4032);
  };
  expect(take).toThrow(expect.objectContaining({ code: 507899, message: expect.stringContaining("overwritten") }));
  expect(() => device.info()).toThrow(expect.objectContaining({ code: 507899 }));
  await device.close();
  const next = await Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 });
  next.allocate(4096);
  await next.close();
});

test("65,536 events are made in well under the time of a look at each for each", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 32 * 2 ** 20 });
  const { core } = coreOf.device(device).machine;
  const events = Array.from({ length: 65_536 }, () => core.createEvent());
  expect(new Set(events).size).toBe(65_536);
  expect(core.createEvent()).toBe(-1);
  core.destroyEvent(77);
  core.destroyEvent(12);
  expect([core.createEvent(), core.createEvent(), core.createEvent()]).toEqual([12, 77, -1]);
  await device.close();
});
