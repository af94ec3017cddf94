/** Random numbers on the device, against Philox written here from its paper's tables and float64. */
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "./harness";

const { rt } = acl;
const [FLOAT, HALF, INT32, UINT32, INT64] = [0, 1, 3, 8, 9];
const [MASK, UNIFORM, NORMAL, TRUNCATED] = [0, 1, 2, 3];
let stream: number;
beforeEach(() => {
  start();
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
});
afterEach(finish);

/** Philox 4x32-10. */
function philox(counter: readonly number[], key: readonly number[]): number[] {
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map(BigInt) as [bigint, bigint];
  const low = (x: bigint): bigint => BigInt.asUintN(32, x);
  for (let round = 0; round < 10; round++) {
    const [p0, p1] = [0xd2511f53n * c0, 0xcd9e8d57n * c2];
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, low(p1), (p0 >> 32n) ^ c3 ^ k1, low(p0)];
    [k0, k1] = [low(k0 + 0x9e3779b9n), low(k1 + 0xbb67ae85n)];
  }
  return [c0, c1, c2, c3].map(Number);
}

/** Number i of a task with this seed whose counter stands at `first` blocks. */
const word = (seed: number, i: number, first = 0): number => philox([first + (i >> 2), 0, 0, 0], [seed, 0])[i & 3]!;

test("the generator of this file passes the known answers of Random123", () => {
  expect(philox([0, 0, 0, 0], [0, 0])).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
  const ones = 0xffffffff;
  expect(philox([ones, ones, ones, ones], [ones, ones])).toEqual([0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
});

type Info = Parameters<typeof rt.random_num_async>[0];
function draw<T extends ArrayBufferView>(into: T, info: Info): T {
  const place = ok(rt.malloc(Math.max(64, into.byteLength), 0));
  ok(rt.random_num_async({ ...info, randomResultAddr: place }, stream));
  ok(rt.synchronize_stream(stream));
  ok(rt.memcpy(into, into.byteLength, place, into.byteLength, 2));
  return into;
}
const COUNT = 1501; // more than a chunk, and no multiple of a block

test("uniform numbers of every dtype, bit by bit", () => {
  covers("rt.random_num_async");
  const whole = { funcType: UNIFORM, paramInfo: { min: 0, max: 2 ** 32 }, randomSeed: 11, randomNum: COUNT, dataType: UINT32 };
  const raw = draw(new Uint32Array(COUNT), whole);
  expect(raw.findIndex((value, i) => value !== word(11, i))).toBe(-1);
  const dice = draw(new Int32Array(COUNT), { ...whole, dataType: INT32, paramInfo: { min: -3, max: 4 } });
  expect(dice.findIndex((value, i) => value !== -3 + Number((BigInt(word(11, i)) * 7n) >> 32n))).toBe(-1);
  const long = draw(new BigInt64Array(64), { ...whole, dataType: INT64, randomNum: 64, paramInfo: { min: -1000, max: 1000 } });
  expect(long.findIndex((value, i) => value !== -1000n + ((BigInt(word(11, 2 * i)) | (BigInt(word(11, 2 * i + 1)) << 32n)) % 2000n))).toBe(-1);
  const real = draw(new Float32Array(COUNT), { ...whole, dataType: FLOAT, paramInfo: { min: -2, max: 6 } });
  expect(real.findIndex((value, i) => value !== Math.fround(-2 + 8 * ((word(11, i) >>> 8) / 2 ** 24)))).toBe(-1);
});

test("normal numbers to float32, truncated ones within two deviations", () => {
  const info = { dataType: FLOAT, funcType: NORMAL, paramInfo: { mean: 5, stddev: 3 }, randomSeed: 5, randomNum: COUNT };
  const normal = draw(new Float32Array(COUNT), info);
  for (let i = 0; i < COUNT; i++) {
    const pair = i & ~1;
    const radius = Math.sqrt(-2 * Math.log((word(5, pair) + 1) / 2 ** 32));
    const angle = (2 * Math.PI * word(5, pair + 1)) / 2 ** 32;
    const exact = 5 + 3 * radius * (i & 1 ? Math.sin(angle) : Math.cos(angle));
    expect(Math.abs(normal[i]! - exact)).toBeLessThan(1e-5);
  }
  const cut = draw(new Float32Array(20_000), { ...info, funcType: TRUNCATED, randomNum: 20_000 });
  expect(cut.every((value) => value >= -1 && value <= 11)).toBe(true);
  const mean = cut.reduce((sum, value) => sum + value, 0) / cut.length;
  const deviation = Math.sqrt(cut.reduce((sum, value) => sum + (value - mean) ** 2, 0) / cut.length);
  expect(Math.abs(mean - 5)).toBeLessThan(0.1);
  expect(Math.abs(deviation - 3 * 0.8796)).toBeLessThan(0.06); // of a normal cut at two deviations
  const half = draw(new Uint16Array(8), { ...info, dataType: HALF, paramInfo: { mean: 2, stddev: 0 }, randomNum: 8 });
  expect([...half]).toEqual(new Array(8).fill(0x4000));
});

test("a dropout mask keeps its share of bits", () => {
  const info = { dataType: FLOAT, funcType: MASK, paramInfo: { dropoutRation: 0.25 }, randomSeed: 3, randomNum: COUNT };
  const mask = draw(new Uint8Array(Math.ceil(COUNT / 8)), info);
  for (let i = 0; i < 8 * mask.length; i++) {
    expect((mask[i >> 3]! >> (i & 7)) & 1).toBe(i < COUNT && word(3, i) >= 0.25 * 2 ** 32 ? 1 : 0);
  }
});

test("the counter goes on from task to task; seed, count and parameters may stand in device memory", () => {
  const memory = ok(rt.malloc(64, 0));
  const set = (at: number, data: ArrayBufferView): void => ok(rt.memcpy(memory + at, data.byteLength, data, data.byteLength, 1));
  set(0, BigUint64Array.of(10n));
  const info = { dataType: UINT32, funcType: UNIFORM, paramInfo: { min: 0, max: 2 ** 32 }, randomSeed: 1, randomNum: 6, randomCounterAddr: memory };
  expect([...draw(new Uint32Array(6), info)]).toEqual([0, 1, 2, 3, 4, 5].map((i) => word(1, i, 10)));
  expect([...draw(new Uint32Array(6), info)]).toEqual([0, 1, 2, 3, 4, 5].map((i) => word(1, i, 12))); // 6 numbers are 2 blocks
  set(8, BigUint64Array.of(99n));
  set(16, BigUint64Array.of(5n));
  set(24, Int32Array.of(-10, 30));
  const [seed, num] = [{ addr: memory + 8 }, { addr: memory + 16 }];
  const found = draw(new Int32Array(6), {
    dataType: INT32,
    funcType: UNIFORM,
    paramInfo: { min: { addr: memory + 24 }, max: { addr: memory + 28 } },
    randomSeed: seed,
    randomNum: num,
  });
  expect([...found.slice(0, 5)]).toEqual([0, 1, 2, 3, 4].map((i) => -10 + Number((BigInt(word(99, i)) * 40n) >> 32n)));
});

test("a queued task can be given another record; one that has run, or other tasks, give 207019", () => {
  covers("rt.task_update_async");
  const [record, other, out, gate] = [64, 64, 64, 8].map((bytes) => ok(rt.malloc(bytes, 0))) as [number, number, number, number];
  ok(rt.memset(gate, 8, 0, 8));
  const exec = ok(rt.create_stream());
  const info = { dataType: UINT32, funcType: UNIFORM, paramInfo: { min: 0, max: 2 ** 32 }, randomSeed: 1, randomNum: 4, randomResultAddr: out };
  ok(rt.random_num_async({ ...info, randomSeed: 2, randomParaAddr: other }, exec)); // leaves its record there
  ok(rt.synchronize_stream(exec));
  ok(rt.value_wait(gate, 1, 1, stream));
  ok(rt.random_num_async({ ...info, randomParaAddr: record }, stream));
  const task = ok(rt.get_thread_last_task_id());
  ok(rt.task_update_async(stream, task, { id: 1, srcAddr: other, size: 64 }, exec));
  ok(rt.value_write(gate, 1, 0, exec));
  ok(rt.synchronize_stream(exec));
  ok(rt.synchronize_stream(stream));
  const found = new Uint32Array(4);
  ok(rt.memcpy(found, 16, out, 16, 2));
  expect([...found]).toEqual([0, 1, 2, 3].map((i) => word(2, i)));
  expect(rt.task_update_async(stream, task, { id: 1, srcAddr: other, size: 64 }, exec)).toBe(207019);
  ok(rt.value_write(gate, 1, 0, stream));
  expect(rt.task_update_async(stream, ok(rt.get_thread_last_task_id()), { id: 1, srcAddr: other, size: 64 }, exec)).toBe(207019);
  expect(rt.task_update_async(stream, task, { id: 9, srcAddr: other, size: 64 }, exec)).toBe(107000);
});

test("a record that makes no sense when the task runs is a fault, and wrong arguments are refused", () => {
  const [record, out] = [ok(rt.malloc(64, 0)), ok(rt.malloc(64, 0))];
  const info = { dataType: FLOAT, funcType: NORMAL, paramInfo: { mean: 0, stddev: 1 }, randomSeed: 1, randomNum: 4, randomResultAddr: out };
  const gate = ok(rt.malloc(8, 0));
  ok(rt.memset(gate, 8, 0, 8));
  ok(rt.value_wait(gate, 1, 1, stream));
  ok(rt.random_num_async({ ...info, randomParaAddr: record }, stream));
  ok(rt.memset(record, 64, 0xff, 64));
  ok(rt.memcpy(gate, 8, BigInt64Array.of(1n), 8, 1));
  expect([507015, 507042]).toContain(rt.synchronize_stream(stream));
  expect(rt.random_num_async({ ...info, randomNum: 17 }, stream)).toBe(107000); // longer than its memory
  expect(rt.random_num_async({ ...info, funcType: 7 }, stream)).toBe(107000);
  const whole = { ...info, funcType: UNIFORM, dataType: INT32 };
  expect(rt.random_num_async({ ...whole, paramInfo: { min: 0, max: 2 ** 32 } }, stream)).toBe(107000); // no int32
  expect(rt.random_num_async({ ...whole, paramInfo: { min: 0.5, max: 4 } }, stream)).toBe(107000);
  expect(rt.random_num_async({ ...whole, paramInfo: { min: -(2 ** 31), max: 2 ** 31 } }, stream)).toBe(0);
  expect(rt.random_num_async({ ...info, dataType: INT32 }, stream)).toBe(100026);
  expect(rt.random_num_async({ ...info, paramInfo: { mean: 0, stddev: -1 } }, stream)).toBe(107000);
  expect(rt.random_num_async({ ...info, paramInfo: { mean: 0 } }, stream)).toBe(107000);
  expect(rt.random_num_async({ ...info, funcType: MASK, paramInfo: { dropoutRation: 1.5 } }, stream)).toBe(107000);
  expect(codeOf(rt.random_num_async({ ...info, randomParaAddr: record + 4 }, stream))).toBe(107000);
});
