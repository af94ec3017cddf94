#!/usr/bin/env node
/**
 * Digits over HTTP: `node examples/service/service.mjs [port]` (default 8080, 0 = any).
 *   POST /classify   784 bytes, the pixels of a digit -> {"label": 7, "confidence": 0.99}
 *   GET  /health     {"inHand": 3, "answered": 120, "refused": 2, ...}
 * Back-pressure: `FRAMES` runs are on the device at once, further ones wait their turn there, and at most `IN_HAND` requests are in the house; one
 * more is told at once to come back (503, Retry-After) instead of making everybody slower. A request whose client is gone is given up.
 * SIGTERM: no new requests, those in hand are answered, then the end.
 */
import http from "node:http";
import { fileURLToPath } from "node:url";
import { AclError, Device, Executor, Tensor } from "npurt";

const MODEL = fileURLToPath(new URL("../digits/digits.onnx", import.meta.url));
const SIDE = 28;
const PIXELS = SIDE * SIDE;
const FRAMES = 8;
const IN_HAND = Number(process.env.IN_HAND ?? 64);
/** A client that is slower than this to send its picture keeps others out. */
const SLOWEST_REQUEST_MS = 5000;
const ABORTED = 107035;

const device = await Device.open();
const executor = await Executor.load(MODEL, { device, frames: FRAMES, shapes: { image: [1, 1, SIDE, SIDE] } });
await executor.warmUp();

const counts = { inHand: 0, answered: 0, refused: 0 };
let whenEmpty = () => {};

function reply(response, status, body, headers = {}) {
  if (response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(`${JSON.stringify(body)}\n`);
}

/** The body, or undefined as soon as it is longer than it may be. */
async function bodyOf(request, most) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function classify(request, response) {
  const gone = new AbortController();
  response.once("close", () => response.writableFinished || gone.abort());
  const bytes = await bodyOf(request, PIXELS);
  if (bytes?.length !== PIXELS) {
    reply(response, 400, { error: `send the ${PIXELS} bytes of a ${SIDE} x ${SIDE} picture, 0 (paper) to 255 (ink)` });
    return;
  }
  const image = new Tensor(
    "float32",
    [1, 1, SIDE, SIDE],
    Float32Array.from(bytes, (byte) => byte / 255),
  );
  const { probability } = await executor.run({ image }, { signal: gone.signal });
  const label = probability.data.indexOf(Math.max(...probability.data));
  counts.answered++;
  reply(response, 200, { label, confidence: probability.data[label] });
}

async function admit(request, response) {
  if (counts.inHand >= IN_HAND) {
    counts.refused++;
    reply(response, 503, { error: "busy; try again" }, { "retry-after": "1", connection: "close" });
    return;
  }
  counts.inHand++;
  try {
    await classify(request, response);
  } catch (error) {
    if (!(error instanceof AclError && error.code === ABORTED)) reply(response, 500, { error: error.message }); // else nobody is there to be told
  } finally {
    counts.inHand--;
    if (counts.inHand === 0) whenEmpty();
  }
}

const server = http.createServer((request, response) => {
  if (request.url === "/classify" && request.method === "POST") {
    admit(request, response);
  } else if (request.url === "/health" && request.method === "GET") {
    const { usedBytes, coresUp, killedCores } = device.info();
    reply(response, 200, { ...counts, usedBytes, coresUp, killedCores });
  } else {
    reply(response, 404, { error: "POST /classify or GET /health" });
  }
});
server.requestTimeout = SLOWEST_REQUEST_MS;
server.listen(Number(process.argv[2] ?? 8080), () => console.log(`listening on http://localhost:${server.address().port}`));

async function stop() {
  server.close();
  server.closeIdleConnections();
  if (counts.inHand > 0) await new Promise((resolve) => (whenEmpty = resolve));
  await device.close();
  console.log(`answered ${counts.answered}, refused ${counts.refused}`);
}
process.once("SIGTERM", stop);
process.once("SIGINT", stop);
