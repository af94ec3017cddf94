/** Temporary memory makes room for what would not fit; persistent memory keeps every byte. */
import { Device, type Stream } from "npurt";

const MIB = 2 ** 20;

async function withDevice(driver: "inline" | "threads" | "sim", body: (device: Device, stream: Stream) => Promise<void>): Promise<void> {
  const device = await Device.open({ driver, cores: 2, memoryBytes: 64 * MIB });
  try {
    await body(device, device.createStream());
  } finally {
    await device.close({ timeoutMs: 0 });
  }
}

describe.each(["inline", "threads", "sim"] as const)("%s", (driver) => {
  test("a program that would run out of memory completes; persistent bytes are intact, and evicted ones computed again", async () => {
    await withDevice(driver, async (device, stream) => {
      const persistent = device.allocate(8 * MIB);
      stream.memset(persistent, 0x5a);
      const caches = Array.from({ length: 10 }, (_, index) => {
        const recompute = (address: number, on: Stream): void => on.memset(address, index + 1, 8 * MIB); // ten of 8 MiB: more than there is
        return device.allocateTemporary(8 * MIB, { recompute });
      });
      for (let round = 0; round < 3; round++) {
        for (const [index, cache] of caches.entries()) {
          const address = cache.use(stream);
          if (round === 0 && cache.evictions === 0) {
            stream.memset(address, index + 1, 8 * MIB);
          }
          const probe = new Uint8Array(16);
          stream.memcpy(probe, address + 8 * MIB - 16, 16);
          await stream.synchronize();
          expect([...probe]).toEqual(new Array(16).fill(index + 1));
        }
      }
      expect(caches.reduce((all, cache) => all + cache.evictions, 0)).toBeGreaterThan(10);
      expect((await persistent.read()).every((byte) => byte === 0x5a)).toBe(true);
    });
  });

  test("the least recently used goes first, tasks in flight are waited for, and without recompute a use says so", async () => {
    await withDevice(driver, async (device, stream) => {
      const temporaries = Array.from({ length: 5 }, () => device.allocateTemporary(10 * MIB));
      for (const index of [1, 2, 3, 4, 0]) {
        stream.memset(temporaries[index]!.use(stream), index, 10 * MIB);
      }
      const result = device.allocate(64);
      stream.launch({ probe: "spin", argument: 100_000 });
      stream.memcpy(result, temporaries[1]!.use(stream), 64); // 2 is the oldest now
      const large = device.allocate(25 * MIB); // 2 and, as they must lie side by side, what it takes besides
      expect(temporaries[2]!.evicted).toBe(true);
      expect(temporaries[1]!.evicted && !temporaries[3]!.evicted).toBe(false);
      stream.memset(large, 0xff);
      expect([...(await result.read())]).toEqual(new Array(64).fill(1));
      expect(() => temporaries[2]!.use(stream)).toThrow(
        expect.objectContaining({ code: 207001, message: expect.stringMatching(/evicted to make room/) }),
      );
      temporaries[2]!.dispose();
      expect(() => temporaries[2]!.use(stream)).toThrow(expect.objectContaining({ code: 107000 }));
    });
  });

  test("what fits beside nothing fails as ever, and disposed ones give their memory back", async () => {
    await withDevice(driver, async (device) => {
      const before = device.info().usedBytes;
      const temporary = device.allocateTemporary(8 * MIB);
      expect(() => device.allocate(80 * MIB)).toThrow(expect.objectContaining({ code: 207001 }));
      expect(temporary.evicted).toBe(false); // nothing would have helped
      temporary.dispose();
      temporary.dispose();
      expect(device.info().usedBytes).toBe(before);
      expect(() => device.allocateTemporary(8, { recompte: 1 } as never)).toThrow(/recompute/);
    });
  });
});
