/**
 * Copies between JavaScript arrays and device memory through both faces, against what the memory of this machine allows: a plain `TypedArray.set` of
 * as many bytes. Blocks alternate, so that a slow minute hits both.
 */
import { performance } from "node:perf_hooks";
import { Device } from "npurt";
import { acl } from "npurt/acl";
import { median } from "../harness.mjs";

const MIB = 2 ** 20;
const SIZES = [1, 4, 16, 64];
/** Bytes per block: short copies are repeated. Blocks are as short as the clock allows, so that what else the machine does hits both kinds alike. */
const BLOCK_BYTES = 16 * MIB;
/** Bytes that each way copies in all its blocks. */
const ALL_BYTES = 576 * MIB;
/** Calls before the first block: V8 has optimised what a call runs through by then. */
const WARM_CALLS = 1000;
const [HOST_TO_DEVICE, DEVICE_TO_HOST] = [1, 2];

function must(ret) {
  const code = Array.isArray(ret) ? ret.at(-1) : ret;
  if (code !== 0) throw new Error(`an acl call ended with ${code}`);
  return Array.isArray(ret) ? ret[0] : undefined;
}

/** The idiomatic face: a copy in stream order, awaited; and one through a buffer's own call. */
async function idiomatic(array, sizeBytes) {
  const device = await Device.open({ cores: 2 });
  await device.ready();
  const buffer = device.allocate(sizeBytes);
  const stream = device.createStream();
  return {
    ways: {
      "H2D, stream.memcpy": async () => {
        stream.memcpy(buffer, array);
        await stream.synchronize();
      },
      "D2H, stream.memcpy": async () => {
        stream.memcpy(array, buffer);
        await stream.synchronize();
      },
      "H2D, buffer.write": () => buffer.write(array),
      "D2H, buffer.read": () => buffer.read(array),
    },
    close: () => device.close(),
  };
}

/** The parity face: rt.memcpy, and rt.memcpy_async with rt.synchronize_stream. */
function parity(array, sizeBytes) {
  must(acl.init());
  must(acl.rt.set_device(0));
  const device = must(acl.rt.malloc(sizeBytes, 0));
  const host = acl.util.bytes_to_ptr(array);
  const stream = must(acl.rt.create_stream());
  const inStream = (target, source, kind) => () => {
    must(acl.rt.memcpy_async(target, sizeBytes, source, sizeBytes, kind, stream));
    must(acl.rt.synchronize_stream(stream));
  };
  return {
    ways: {
      "H2D, rt.memcpy": () => must(acl.rt.memcpy(device, sizeBytes, host, sizeBytes, HOST_TO_DEVICE)),
      "D2H, rt.memcpy": () => must(acl.rt.memcpy(host, sizeBytes, device, sizeBytes, DEVICE_TO_HOST)),
      "H2D, rt.memcpy_async": inStream(device, host, HOST_TO_DEVICE),
      "D2H, rt.memcpy_async": inStream(host, device, DEVICE_TO_HOST),
    },
    close() {
      must(acl.rt.reset_device(0));
      must(acl.finalize());
    },
  };
}

async function timed(way, times) {
  const start = performance.now();
  for (let i = 0; i < times; i++) await way();
  return (performance.now() - start) / times;
}

async function speeds(face, sizeBytes) {
  const array = new Uint8Array(sizeBytes).fill(1);
  const other = new Uint8Array(sizeBytes).fill(2);
  const plain = () => other.set(array);
  const times = Math.max(1, BLOCK_BYTES / sizeBytes);
  const { ways, close } = await face(array, sizeBytes);
  const answers = [];
  for (const [name, way] of Object.entries(ways)) {
    const ratios = [];
    await timed(way, sizeBytes === MIB ? WARM_CALLS : times);
    for (let done = 0; done < ALL_BYTES; done += times * sizeBytes) ratios.push((await timed(plain, times)) / (await timed(way, times)));
    answers.push({ case: `${name}, ${sizeBytes / MIB} MiB`, value: median(ratios), unit: "x of a plain set" });
  }
  await close();
  return answers;
}

export async function measureCopies() {
  const answers = [];
  for (const face of [idiomatic, parity]) for (const size of SIZES) answers.push(...(await speeds(face, size * MIB)));
  return answers;
}
