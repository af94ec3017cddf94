/** Stream-ordered pools: what a stream may have again, and what goes back to the device. */
import { acl } from "npurt/acl";
import { deviceIfOpen } from "../../../dist/lib/acl/devices";
import { codeOf, covers, finish, ok, probe, start } from "../harness";

const { rt } = acl;
const MIB = 2 ** 20;
const [RELEASE, RESERVED, RESERVED_HIGH, USED, USED_HIGH] = [4, 5, 6, 7, 8];
afterEach(finish);

function begin(emulator: Parameters<typeof start>[0] = {}): { pool: number; streams: [number, number] } {
  start({ memory: 64 * MIB, ...emulator });
  ok(rt.set_device(0));
  const pool = ok(rt.mem_pool_create({ location: { id: 0, type: 1 } }));
  return { pool, streams: [ok(rt.create_stream()), ok(rt.create_stream())] };
}

const attribute = (pool: number, which: number): number => ok(rt.mem_pool_get_attr(pool, which));
const allocations = (): number => deviceIfOpen(0)!.machine.core.poolCount();
const malloc = (bytes: number, pool: number, stream: number): number => ok(rt.mem_pool_malloc_async(bytes, pool, stream));
const free = (address: number, stream: number): void => void ok(rt.mem_pool_free_async(address, stream));

test("100,000 pairs of sizes up to 64 KiB make one allocation of the device, and the bytes are the stream's own", () => {
  covers("rt.mem_pool_create", "rt.mem_pool_malloc_async", "rt.mem_pool_free_async", "rt.mem_pool_get_attr");
  const { pool, streams } = begin();
  ok(rt.memset_async(malloc(64, pool, streams[0]), 64, 1, 64, streams[0])); // the stream has its rings now
  const before = allocations();
  const held: number[] = [];
  for (let pair = 0, seed = 1; pair < 100_000; pair++) {
    seed = (seed * 48271) % 0x7fffffff;
    held.push(malloc(1 + (seed % 65536), pool, streams[0]));
    if (held.length > 8) {
      free(held.splice(seed % held.length, 1)[0]!, streams[0]);
    }
  }
  expect(allocations()).toBe(before);
  expect(new Set(held).size).toBe(held.length);
  expect(held.every((address) => address % 64 === 0)).toBe(true);
  expect(attribute(pool, RESERVED)).toBe(2 * MIB);
  expect(attribute(pool, USED_HIGH)).toBeLessThanOrEqual(10 * 65536);
});

test("the best fitting block is taken, cut, and joined again with its neighbours", () => {
  const { pool, streams } = begin();
  const [stream] = streams;
  const blocks = [4096, 1024, 4096, 2048, 4096].map((bytes) => malloc(bytes, pool, stream));
  free(blocks[1]!, stream);
  free(blocks[3]!, stream);
  expect(malloc(2000, pool, stream)).toBe(blocks[3]); // not the first hole, which is too small, and not the rest of the segment
  const small = malloc(512, pool, stream);
  expect(small).toBe(blocks[1]);
  free(small, stream);
  free(blocks[0]!, stream);
  free(blocks[2]!, stream);
  expect(malloc(4096 + 1024 + 4096, pool, stream)).toBe(blocks[0]);
  expect(attribute(pool, USED)).toBe(9216 + 2048 + 4096);
});

test("another stream gets a block only behind its last use: by a wait that the pool puts in, if nothing else orders them", () => {
  const { pool, streams } = begin();
  const [first, second] = streams;
  const block = malloc(2 * MIB, pool, first); // a whole segment
  probe(first, "spin", 100_000);
  ok(rt.memset_async(block, MIB, 7, MIB, first));
  free(block, first);
  ok(rt.mem_pool_set_attr(pool, 2, 2));
  expect(attribute(pool, 2)).toBe(2);
  const whole = malloc(2 * MIB - 64, pool, second);
  expect(whole).toBe(block);
  ok(rt.memset_async(whole, MIB, 9, MIB, second));
  ok(rt.synchronize_stream(second));
  const bytes = new Uint8Array(MIB);
  ok(rt.memcpy(bytes, MIB, whole, MIB, 2));
  expect(bytes.every((value) => value === 9)).toBe(true);
  expect(ok(rt.stream_query(first))).toBe(0); // the first was done before the second began
});

test("without internal waits and chance the block waits for an event between the two streams, or for a synchronize", () => {
  covers("rt.mem_pool_set_attr");
  const { pool, streams } = begin();
  const [first, second] = streams;
  ok(rt.mem_pool_set_attr(pool, 2, 2));
  ok(rt.mem_pool_set_attr(pool, 3, 2));
  const block = malloc(1000, pool, first);
  ok(rt.memset_async(block, 64, 7, 64, first));
  free(block, first);
  const other = malloc(1000, pool, second);
  expect(other).not.toBe(block);
  const event = ok(rt.create_event());
  ok(rt.record_event(event, first));
  expect(malloc(1000, pool, second)).not.toBe(block);
  ok(rt.stream_wait_event(second, event));
  expect(malloc(1000, pool, second)).toBe(block); // now behind the event
  ok(rt.mem_pool_set_attr(pool, 1, 2));
  const third = malloc(3000, pool, first);
  free(third, first);
  const fourth = malloc(3000, pool, second);
  expect(fourth).not.toBe(third);
  ok(rt.mem_pool_set_attr(pool, RELEASE, 64 * MIB));
  ok(rt.synchronize_stream(first));
  expect(malloc(3000, pool, second)).toBe(third);
});

test("order goes on from stream to stream", () => {
  const { pool, streams } = begin();
  const [first, second] = streams;
  const third = ok(rt.create_stream());
  ok(rt.mem_pool_set_attr(pool, 2, 2));
  ok(rt.mem_pool_set_attr(pool, 3, 2));
  const block = malloc(1000, pool, first);
  ok(rt.memset_async(block, 64, 7, 64, first));
  free(block, first);
  const [a, b] = [ok(rt.create_event()), ok(rt.create_event())];
  ok(rt.record_event(a, first));
  ok(rt.record_event(b, second)); // before the second is behind the first
  ok(rt.stream_wait_event(second, a));
  ok(rt.stream_wait_event(third, b));
  expect(malloc(1000, pool, third)).not.toBe(block);
  const c = ok(rt.create_event());
  ok(rt.record_event(c, second));
  ok(rt.stream_wait_event(third, c));
  expect(malloc(1000, pool, third)).toBe(block);
});

test("every synchronize gives back what is above the threshold, which is 0 at first; levels are kept", () => {
  covers("rt.mem_pool_trim_to");
  const { pool, streams } = begin();
  const [stream] = streams;
  const charged = (): number => deviceIfOpen(0)!.chargedBytes;
  const before = charged();
  const blocks = [malloc(3 * MIB, pool, stream), malloc(5 * MIB, pool, stream)];
  expect(attribute(pool, RESERVED)).toBe(10 * MIB);
  expect(charged() - before).toBe(10 * MIB);
  free(blocks[0]!, stream);
  expect(attribute(pool, RESERVED)).toBe(10 * MIB);
  ok(rt.synchronize_stream(stream));
  expect(attribute(pool, RESERVED)).toBe(6 * MIB);
  ok(rt.mem_pool_set_attr(pool, RELEASE, 6 * MIB));
  free(blocks[1]!, stream);
  ok(rt.synchronize_device());
  expect(attribute(pool, RESERVED)).toBe(6 * MIB);
  ok(rt.mem_pool_trim_to(pool, 0));
  expect([RESERVED, RESERVED_HIGH, USED, USED_HIGH].map((which) => attribute(pool, which))).toEqual([0, 10 * MIB, 0, 8 * MIB]);
  ok(rt.mem_pool_set_attr(pool, RESERVED_HIGH, 0));
  ok(rt.mem_pool_set_attr(pool, USED_HIGH, 0));
  expect([attribute(pool, RESERVED_HIGH), attribute(pool, USED_HIGH)]).toEqual([0, 0]);
  expect(charged()).toBe(before);
});

test("a pool gives unused segments up when memory is short, and has a limit of its own", () => {
  const { pool, streams } = begin({ memory: 32 * MIB });
  const [stream] = streams;
  const block = malloc(16 * MIB, pool, stream);
  free(block, stream);
  for (const never of [32 * MIB, 2 ** 32 + 64, 2 ** 47 + 2]) {
    expect([codeOf(rt.malloc_host(never)), codeOf(rt.malloc(never, 0))]).toEqual([207001, 207001]);
  }
  expect(attribute(pool, RESERVED)).toBe(16 * MIB); // nothing was given up for what cannot fit
  const direct = ok(rt.malloc(20 * MIB, 0)); // does not fit beside the pool's segment
  expect(attribute(pool, RESERVED)).toBe(0);
  expect(codeOf(rt.mem_pool_malloc_async(16 * MIB, pool, stream))).toBe(207001);
  ok(rt.free(direct));
  const small = ok(rt.mem_pool_create({ maxSize: 4 * MIB }));
  malloc(3 * MIB, small, stream);
  expect(codeOf(rt.mem_pool_malloc_async(MIB + 64, small, stream))).toBe(207001);
  expect(acl.get_recent_err_msg()).toContain("give blocks back");
});

test("destroy waits for blocks in use; wrong addresses, pools and streams give their codes", () => {
  covers("rt.mem_pool_destroy");
  const { pool, streams } = begin();
  const [stream] = streams;
  const before = allocations();
  const block = malloc(100, pool, stream);
  expect(rt.free(block)).toBe(107000);
  ok(rt.mem_pool_destroy(pool));
  expect(codeOf(rt.mem_pool_malloc_async(100, pool, stream))).toBe(107017);
  ok(rt.memset_async(block, 64, 1, 64, stream));
  free(block, stream);
  expect(rt.mem_pool_free_async(block, stream)).toBe(107000);
  ok(rt.synchronize_stream(stream));
  expect(allocations()).toBeLessThanOrEqual(before + 1); // the stream's ring; the segment is gone
  expect(codeOf(rt.mem_pool_malloc_async(100, 0, stream))).toBe(107000);
  const next = ok(rt.mem_pool_create({}));
  expect(codeOf(rt.mem_pool_malloc_async(0, next, stream))).toBe(107000);
  expect(rt.mem_pool_set_attr(next, 5, 0)).toBe(107000);
  expect(codeOf(rt.mem_pool_get_attr(next, 9))).toBe(107000);
  expect(codeOf(rt.mem_pool_create({ location: { id: 0, type: 0 } }))).toBe(107000);
  const last = malloc(100, next, stream);
  ok(rt.reset_device(0));
  ok(rt.set_device(0));
  expect(codeOf(rt.mem_pool_malloc_async(100, next, ok(rt.create_stream())))).toBe(507899);
  expect(rt.mem_pool_free_async(last, 0)).toBe(107000);
  expect(rt.mem_pool_trim_to(next, 0)).toBe(507899);
});
