/** Runs under adversity: more of them than frames and slots, arrays that vanish, streams and devices that go away. */
import { AclError, Device, type DeviceOptions, Executor, Tensor } from "npurt";

const DIGITS = "examples/digits/digits.onnx";
const DRIVERS: readonly DeviceOptions[] = [{ driver: "threads", cores: 2 }, { driver: "inline" }];
const image = (value: number): Tensor => new Tensor("float32", [1, 1, 28, 28], new Float32Array(784).fill(value));
const detach = ({ data }: Tensor): void => void structuredClone(data.buffer as ArrayBuffer, { transfer: [data.buffer as ArrayBuffer] });

describe.each(DRIVERS)("$driver", (options) => {
  let device: Device;
  let executor: Executor;
  /** What a lone run gives for `image(i / 8)`. */
  const alone: Float32Array[] = [];
  beforeAll(async () => {
    device = await Device.open(options);
    executor = await Executor.load(DIGITS, { device, shapes: { image: [1, 1, 28, 28] } });
    for (let i = 0; i < 8; i++) {
      alone.push((await executor.run({ image: image(i / 8) })).probability!.data as Float32Array);
    }
    expect(alone[1]).not.toEqual(alone[7]);
  });
  afterAll(() => device.close());

  test("runs on a stream that is full neither block nor overtake each other", async () => {
    const [stream, gate, opened] = [device.createStream(), device.createStream(), device.createEvent()];
    gate.launch({ probe: "spin", argument: 20_000_000 });
    gate.record(opened);
    stream.wait(opened);
    stream.nop(255);
    const order: number[] = [];
    const runs = Array.from({ length: 400 }, async (_, i) => {
      const { probability } = await executor.run({ image: image((i % 8) / 8) }, { stream });
      order.push(i);
      expect(probability!.data).toEqual(alone[i % 8]);
    });
    // Not one of them could run, and the calls have returned. (On inline, asking would run it.)
    expect(options.driver === "threads" && opened.query()).toBe(false);
    await stream.synchronize();
    await Promise.all(runs);
    expect(order).toEqual(Array.from({ length: 400 }, (_, i) => i));
    await Promise.all([stream.destroy(), gate.destroy()]);
  });

  test("what is queued behind runs that wait stays behind them", async () => {
    const stream = device.createStream();
    const done = device.createEvent();
    let settled = 0;
    const runs = Array.from({ length: 20 }, async () => {
      await executor.run({ image: image(0) }, { stream });
      settled++;
    });
    stream.record(done);
    await done.synchronize();
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).toBe(20);
    await Promise.all(runs);
    await stream.destroy();
  });

  test("destroying a stream lets its runs finish; aborting it ends them all with 107023", async () => {
    const stream = device.createStream();
    const runs = Array.from({ length: 30 }, () => executor.run({ image: image(0) }, { stream }));
    await stream.destroy();
    expect(await Promise.all(runs)).toHaveLength(30);
    const other = device.createStream();
    other.launch({ probe: "spin", argument: 30_000_000 });
    const dropped = Array.from({ length: 30 }, () => executor.run({ image: image(0) }, { stream: other }).catch((error) => error.code));
    other.abort();
    expect(new Set(await Promise.all(dropped))).toEqual(new Set([107023]));
    await other.destroy();
  });

  test("a prepared run that is launched on two streams runs one after the other", async () => {
    const prepared = executor.prepare();
    const [one, two] = [device.createStream(), device.createStream()];
    prepared.inputs.image!.set(image(1 / 8).data as never);
    for (let i = 0; i < 20; i++) {
      one.launch({ probe: "spin", argument: 100_000 });
      for (const stream of [one, two, one]) {
        stream.launch(prepared);
      }
      await Promise.all([one.synchronize(), two.synchronize()]);
      expect(prepared.outputs.probability).toEqual(alone[1]);
    }
    prepared.dispose();
    await Promise.all([one.destroy(), two.destroy()]);
  });

  test("arrays whose buffers were transferred", async () => {
    const gone = image(0);
    detach(gone);
    await expect(executor.run({ image: gone })).rejects.toMatchObject({ code: 100017 });
    await expect(executor.run({ image: gone.data })).rejects.toMatchObject({ code: 100017 });
    // Gone while its shapes are compiled: nothing else of the right size may be run in its place.
    const late = new Tensor("float32", [3, 1, 28, 28], new Float32Array(3 * 784).fill(0.5));
    const run = executor.run({ image: late });
    detach(late);
    await expect(run).rejects.toMatchObject({ code: 100017 });
    const outputs = Array.from({ length: 8 }, () => ({ probability: Tensor.zeros("float32", [1, 10]) }));
    const runs = outputs.map((into) => executor.run({ image: image(0) }, { outputs: into }));
    const settled = Promise.allSettled(runs);
    outputs.forEach(({ probability }) => detach(probability));
    // A run that the caller's own thread has done is done; those that were in flight say what happened to their target.
    for (const result of await settled) {
      expect(result.status === "fulfilled" ? 100018 : result.reason.code).toBe(100018);
    }
    const stream = device.createStream();
    const buffer = device.allocate(1 << 16);
    const [lost, kept] = [new Uint8Array(1 << 16), new Uint8Array(1 << 16)];
    stream.launch({ probe: "spin", argument: 1_000_000 });
    stream.memset(buffer, 5);
    stream.memcpy(lost, buffer);
    stream.memcpy(kept, buffer);
    structuredClone(lost.buffer, { transfer: [lost.buffer] });
    await stream.synchronize();
    expect(kept.every((byte) => byte === 5)).toBe(true);
    expect(() => stream.memcpy(buffer, lost)).toThrow(AclError);
    await stream.destroy();
    buffer.dispose();
  });

  test("feeds are read once: by their names, in any order, with what was read", async () => {
    let reads = 0;
    const shifty = {
      get image() {
        reads++;
        return reads === 1 ? image(1 / 8) : image(7 / 8);
      },
    };
    const { probability } = await executor.run(shifty);
    expect(reads).toBe(1);
    expect(probability!.data).toEqual(alone[1]);
  });

  test("what a tensor was checked for stays so", async () => {
    const dims = [1, 1, 28, 28];
    const tensor = new Tensor("float32", dims, new Float32Array(784));
    dims[0] = 9;
    expect(tensor.dims).toEqual([1, 1, 28, 28]);
    const { probability } = await executor.run({ image: tensor });
    expect(Object.isFrozen(probability!.dims) && Object.isFrozen(executor.inputs[0]!.dims)).toBe(true);
  });

  test("a buffer that is disposed while a task writes it comes back only afterwards", async () => {
    for (let i = 0; i < 10; i++) {
      const stream = device.createStream();
      const buffer = device.allocate(4 << 20);
      stream.launch({ probe: "spin", argument: 100_000 });
      stream.memset(buffer, 0xff);
      buffer.dispose();
      const others = Array.from({ length: 20 }, (_, size) => device.allocate(1000 + size * 64));
      await stream.synchronize();
      others.forEach((other) => other.dispose());
      await stream.destroy();
    }
    expect(device.info().usedBy.user).toBe(0);
  });

  test("longer than a timer can wait is for ever", async () => {
    const stream = device.createStream();
    for (const timeoutMs of [2 ** 40, Number.POSITIVE_INFINITY]) {
      stream.launch({ probe: "spin", argument: 2_000_000 });
      await stream.synchronize({ timeoutMs });
    }
    await stream.destroy();
  });

  test("aborts at any moment give 107035 or results", async () => {
    const moments: ((controller: AbortController) => void)[] = [
      (controller) => controller.abort(),
      (controller) => queueMicrotask(() => controller.abort()),
      (controller) => setImmediate(() => controller.abort()),
    ];
    for (const abort of moments) {
      const runs = Array.from({ length: 20 }, () => {
        const controller = new AbortController();
        const run = executor.run({ image: image(0) }, { signal: controller.signal });
        abort(controller);
        return run.then(
          () => 107035,
          (error) => error.code,
        );
      });
      expect(new Set(await Promise.all(runs))).toEqual(new Set([107035]));
    }
    expect((await executor.run({ image: image(3 / 8) })).probability!.data).toEqual(alone[3]);
  });

  test.each([undefined, 0])("a device that closes (timeoutMs %s) settles 400 runs", async (timeoutMs) => {
    const closing = await Device.open(options);
    const model = await Executor.load(DIGITS, { device: closing, shapes: { image: [1, 1, 28, 28] } });
    const stream = closing.createStream();
    const runs = Array.from({ length: 400 }, (_, i) =>
      model.run({ image: image(0) }, i % 2 === 0 ? {} : { stream }).then(
        () => 0,
        (error) => error.code,
      ),
    );
    await closing.close(timeoutMs === undefined ? {} : { timeoutMs });
    const codes = await Promise.all(runs);
    expect(codes.every((code) => code === 0 || (timeoutMs === 0 && code === 507899))).toBe(true);
    await expect(model.run({ image: image(0) })).rejects.toMatchObject({ code: 507899 });
  });
});
