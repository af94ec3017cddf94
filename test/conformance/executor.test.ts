/** Runs of hand-made programs on every driver: results, many in flight, what is refused, faults and aborts in the middle. */
import { Device, type Results, Tensor } from "npurt";
import { Probe } from "../../dist/asm/abi/task";
import { failureOf, onEachDriver, ramp } from "./drivers";
import { copy, executorOf, handMade, nop, probe } from "./programs";

const tensor = (data: Int32Array): Tensor => new Tensor("int32", [data.length], data);
const values = (results: Results): number[] => [...(results.y!.data as Int32Array)];

onEachDriver("a run returns what the program makes, in tensors of its own", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const first = await executor.run({ x: tensor(ramp(16)) });
  const second = await executor.run({ x: ramp(16, 100) });
  expect(values(first)).toEqual([...ramp(16)]);
  expect(values(second)).toEqual([...ramp(16, 100)]);
  expect(first.y!.dims).toEqual([16]);
  expect((first.y!.data as Int32Array).buffer).not.toBeInstanceOf(SharedArrayBuffer);
});

onEachDriver("every tile runs exactly once, over many regions", async (device) => {
  const tiles = 64;
  const regions = Array.from({ length: 20 }, () => [probe(Probe.COUNT, 0, tiles, "count"), nop]);
  const executor = executorOf(device, handMade([[{ ...copy, tiles: 1 }], ...regions], tiles, 50_000));
  for (let round = 0; round < 5; round++) {
    expect(values(await executor.run({ x: new Int32Array(tiles) }))).toEqual(new Array(tiles).fill(20));
  }
});

onEachDriver("many runs in flight: each gets its own answer, whatever was written to its feed after the call", async (device) => {
  const executor = executorOf(device, handMade([[copy], [probe(Probe.SPIN, 2000, 4)]], 16, 200_000_000), 3);
  const feed = new Int32Array(16);
  const runs: Promise<Results>[] = [];
  for (let i = 0; i < 50; i++) {
    feed.fill(i);
    runs.push(executor.run({ x: feed }));
  }
  const results = await Promise.all(runs);
  expect(results.map((result) => values(result)[7])).toEqual(Array.from({ length: 50 }, (_, i) => i));
});

onEachDriver("a loop of short runs leaves the event loop its turns", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  let fired = false;
  setTimeout(() => {
    fired = true;
  }, 0);
  for (let i = 0; i < 100_000 && !fired; i++) {
    await executor.run({ x: ramp(16) });
  }
  expect(fired).toBe(true);
});

onEachDriver("a device synchronizes beside a loop of short runs that does not end", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  let stopped = false;
  const loop = (async () => {
    while (!stopped) {
      await executor.run({ x: ramp(16) });
    }
  })();
  for (let i = 0; i < 3; i++) {
    await device.synchronize();
  }
  stopped = true;
  await expect(loop).resolves.toBeUndefined();
});

onEachDriver("runs on a stream keep its order", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const stream = device.createStream();
  const prepared = executor.prepare();
  const source = device.allocate(64);
  const target = device.allocate(64);
  stream.memcpy(source, ramp(16));
  stream.memcpy(prepared.inputs.x!, source);
  stream.launch(prepared);
  stream.memcpy(target, prepared.outputs.y!);
  await stream.synchronize();
  expect(new Int32Array((await target.read()).buffer)).toEqual(ramp(16));
  expect(values(await executor.run({ x: ramp(16, 5) }, { stream }))).toEqual([...ramp(16, 5)]);
  prepared.dispose();
  prepared.dispose();
  expect((await failureOf(() => stream.launch(prepared))).code).toBe(107017);
});

onEachDriver("outputs may be given, and are what is returned", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const outputs = { y: Tensor.zeros("int32", [16]) };
  const result = await executor.run({ x: ramp(16) }, { outputs });
  expect(result.y).toBe(outputs.y);
  expect(values(outputs)).toEqual([...ramp(16)]);
  const wrong = (given: Record<string, unknown>): Promise<{ code: number; message: string }> =>
    failureOf(executor.run({ x: ramp(16) }, { outputs: given as Record<string, Tensor> }));
  expect((await wrong({ z: outputs.y })).message).toMatch(/"z" is no output; did you mean "y"/);
  expect((await wrong({})).code).toBe(100018);
  expect((await wrong({ y: Tensor.zeros("int32", [8]) })).message).toMatch(/must be a Tensor int32\[16\] and is int32\[8\]/);
  expect((await wrong({ y: Tensor.zeros("float32", [16]) })).code).toBe(100018);
});

onEachDriver("feeds that do not fit are refused with what would", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const wrong = async (feeds: unknown): Promise<string> => {
    const error = await failureOf(executor.run(feeds as { x: Tensor }));
    expect(error.code).toBe(100017);
    return error.message;
  };
  expect(await wrong({})).toMatch(/input "x" \(int32\[16\]\) is missing/);
  expect(await wrong({ x: ramp(16), z: ramp(1) })).toMatch(/"z" is no input; did you mean "x"/);
  expect(await wrong({ x: new Float32Array(16) })).toMatch(/must be int32 \(Int32Array\) and is a Float32Array/);
  expect(await wrong({ x: new Tensor("float32", [16], new Float32Array(16)) })).toMatch(/must be int32 and is float32/);
  expect(await wrong({ x: ramp(15) })).toMatch(/needs 16 elements and has 15/);
  expect(await wrong({ x: new Tensor("int32", [4, 4], ramp(16)) })).toMatch(/has rank 1 .* fed \[4, 4\]/);
  expect(await wrong({ x: new Tensor("int32", [17], ramp(17)) })).toMatch(/axis 0 .* must be 16 and is 17/);
  expect(await wrong(null)).toMatch(/feeds must be an object/);
  expect(await wrong({ x: "text" })).toMatch(/must be a Tensor or a typed array/);
  expect((await failureOf(executor.run({ x: ramp(16) }, { sream: 1 } as never))).message).toMatch(/did you mean "stream"/);
  expect(values(await executor.run({ x: ramp(16) }))).toEqual([...ramp(16)]);
});

onEachDriver("a fault names the node, the tile and the reason; the next run is right", async (device) => {
  const bad = executorOf(
    device,
    handMade([[copy], [probe(Probe.SPIN, 100, 7, "before"), probe(Probe.OUT_OF_BOUNDS, 0, 1, "conv/3"), probe(Probe.SPIN, 100, 8, "after")]]),
  );
  const good = executorOf(device, handMade([[copy]]));
  for (let i = 0; i < 20; i++) {
    const [failed, result] = await Promise.all([failureOf(bad.run({ x: ramp(16) })), good.run({ x: ramp(16, i) })]);
    expect(failed.code).toBe(507042);
    expect(failed.node).toBe("conv/3");
    expect(failed.message).toMatch(/run of hand-made: tile 0 of node "conv\/3" accessed an address outside/);
    expect(values(result)).toEqual([...ramp(16, i)]);
  }
  await device.synchronize(); // the callers were told: nothing is left to report
});

onEachDriver("a fault of a run on a user's stream is the stream's too", async (device) => {
  const bad = executorOf(device, handMade([[probe(Probe.DIVIDE_BY_ZERO)]]));
  const stream = device.createStream();
  expect((await failureOf(bad.run({ x: ramp(16) }, { stream }))).code).toBe(507015);
  expect((await failureOf(stream.synchronize())).code).toBe(507015);
  await stream.synchronize();
});

onEachDriver("abort before, during and after a run", async (device) => {
  const slow = executorOf(device, handMade([...Array.from({ length: 3000 }, () => [probe(Probe.SPIN, 5000, 2)]), [copy]], 16, 500_000_000));
  const before = await failureOf(slow.run({ x: ramp(16) }, { signal: AbortSignal.abort("no") }));
  expect(before.code).toBe(107035);
  const controller = new AbortController();
  const running = failureOf(slow.run({ x: ramp(16) }, { signal: controller.signal }));
  setImmediate(() => controller.abort("stop"));
  const during = await running;
  expect(during.code).toBe(107035);
  expect(during.cause).toBe("stop");
  const late = new AbortController();
  expect(values(await slow.run({ x: ramp(16) }, { signal: late.signal }))).toEqual([...ramp(16)]);
  late.abort();
  expect(values(await slow.run({ x: ramp(16, 3) }))).toEqual([...ramp(16, 3)]);
});

onEachDriver("a run that waits for a frame can be aborted too", async (device) => {
  const executor = executorOf(device, handMade([[probe(Probe.SPIN, 20_000, 2)], [copy]], 16, 500_000_000), 1);
  const first = executor.run({ x: ramp(16) });
  const controller = new AbortController();
  const second = failureOf(executor.run({ x: ramp(16) }, { signal: controller.signal }));
  const third = executor.run({ x: ramp(16, 9) });
  controller.abort();
  expect((await second).code).toBe(107035);
  expect(values(await first)).toEqual([...ramp(16)]);
  expect(values(await third)).toEqual([...ramp(16, 9)]);
});

onEachDriver("STOP mode of the default context refuses runs until reset", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const bad = executorOf(device, handMade([[probe(Probe.UNREACHABLE)]]));
  device.defaultContext.setFailureMode("STOP");
  expect((await failureOf(bad.run({ x: ramp(16) }))).code).toBe(507015);
  expect((await failureOf(executor.run({ x: ramp(16) }))).code).toBe(507015);
  await device.defaultContext.reset();
  expect(values(await executor.run({ x: ramp(16) }))).toEqual([...ramp(16)]);
});

onEachDriver("runSync is refused on the main thread unless asked for", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  expect((await failureOf(() => executor.runSync({ x: ramp(16) }))).code).toBe(107038);
  expect(values(executor.runSync({ x: ramp(16) }, { allowMainThread: true }))).toEqual([...ramp(16)]);
});

onEachDriver("dispose is idempotent, gives all memory back, and lets runs in flight end", async (device) => {
  const warm = executorOf(device, handMade([[copy]], 32, 500_000_000), 64);
  await warm.warmUp(); // the run streams and their rings stay with the device
  await Promise.all(Array.from({ length: 64 }, () => warm.run({ x: ramp(32) })));
  warm.dispose();
  const before = device.info().usedBytes;
  const executor = executorOf(device, handMade([[copy], [probe(Probe.SPIN, 1000, 2)]], 16, 200_000_000));
  const running = executor.run({ x: ramp(16) });
  executor.dispose();
  executor.dispose();
  expect(executor.disposed).toBe(true);
  expect((await failureOf(executor.run({ x: ramp(16) }))).code).toBe(107017);
  expect(values(await running)).toEqual([...ramp(16)]);
  expect(device.info().usedBytes).toBe(before);
});

onEachDriver("after warm-up, runs with given outputs allocate nothing on the device", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const outputs = { y: Tensor.zeros("int32", [16]) };
  await executor.warmUp();
  for (let i = 0; i < 100; i++) {
    await executor.run({ x: ramp(16) }, { outputs }); // every run stream gets its ring
  }
  const { allocations, usedBytes } = device.info();
  for (let i = 0; i < 1000; i++) {
    await executor.run({ x: ramp(16, i) }, { outputs });
  }
  expect(device.info()).toMatchObject({ allocations, usedBytes });
});

test("a core killed in the middle of a run: the run fails with its node, other runs and the next one are right", async () => {
  const device = await Device.open({ memoryBytes: 64 << 20, cores: 2, watchdogMs: 100 });
  await device.ready();
  const bad = executorOf(
    device,
    handMade([[copy], [probe(Probe.SPIN, 1000, 7), probe(Probe.RUNAWAY, 0, 1, "stuck"), probe(Probe.SPIN, 1000, 8)]], 16, 500_000_000),
  );
  const good = executorOf(device, handMade([[copy], [probe(Probe.COUNT, 0, 16)]], 16, 500_000_000));
  for (let round = 1; round <= 3; round++) {
    const failing = failureOf(bad.run({ x: ramp(16) }));
    for (let i = 0; i < 5; i++) {
      expect(values(await good.run({ x: ramp(16, i) }))).toEqual([...ramp(16, i + 1)]);
    }
    const error = await failing;
    expect(error.code).toBe(507014);
    expect(error.node).toBe("stuck");
    expect(device.info().killedCores).toBe(round);
  }
  expect(values(await good.run({ x: ramp(16) }))).toEqual([...ramp(16, 1)]);
  await device.close();
});

onEachDriver("a prepared run keeps its program while other shapes come and go", async (device) => {
  const executor = executorOf(device, handMade([[copy]]));
  const prepared = executor.prepare();
  executor.dispose();
  (prepared.inputs.x as Int32Array).set(ramp(16, 4));
  const stream = device.createStream();
  stream.launch(prepared);
  await stream.synchronize();
  expect([...(prepared.outputs.y as Int32Array)]).toEqual([...ramp(16, 4)]);
  prepared.dispose();
});

test("results are bit-identical on every driver and number of cores", async () => {
  const seen = new Set<string>();
  for (const options of [{ driver: "inline" }, { driver: "sim", cores: 4 }, { cores: 1 }, { cores: 2 }, { cores: 4 }] as const) {
    const device = await Device.open({ memoryBytes: 64 << 20, ...options });
    const executor = executorOf(device, handMade([[copy], [probe(Probe.COUNT, 0, 16)], [nop], [probe(Probe.COUNT, 0, 8)]], 16, 40_000));
    for (let i = 0; i < 20; i++) {
      seen.add(values(await executor.run({ x: ramp(16) })).join());
    }
    await device.close();
  }
  expect([...seen]).toEqual([[...ramp(16)].map((value, i) => value + (i < 8 ? 2 : 1)).join()]);
});
