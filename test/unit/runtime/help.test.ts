/** Which programs the calling thread runs itself. */
import { setImmediate as turn } from "node:timers/promises";
import { Help } from "../../../dist/lib/runtime/help";
import type { StreamCore } from "../../../dist/lib/runtime/stream-core";

const stream = ({ driver = "threads", coresUp = 2, opener = true, helpBelowNs = 500_000 } = {}): StreamCore =>
  ({ machine: { driver: { name: driver, coresUp }, opener }, device: { options: { helpBelowNs } } }) as unknown as StreamCore;

test("what is shorter than a wake-up always runs here, what is longer than the limit never", () => {
  const help = new Help();
  for (let i = 0; i < 1000; i++) expect(help.takes(stream(), 99_999, false)).toBe(true);
  expect(help.takes(stream(), 500_000, false)).toBe(false);
  expect(help.takes(stream(), 500_000, true)).toBe(false);
});

test("a run that begins before the last one's result was taken goes to the cores", async () => {
  const help = new Help();
  expect(help.takes(stream(), 300_000, false)).toBe(true);
  expect(help.takes(stream(), 300_000, false)).toBe(false);
  expect(help.takes(stream(), 300_000, true)).toBe(true); // its caller waits in any case
  await undefined;
  expect(help.takes(stream(), 300_000, false)).toBe(true);
});

test("the event loop has its turn after 4 ms of runs", async () => {
  const help = new Help();
  let runs = 0;
  while (help.takes(stream(), 300_000, false)) {
    runs++;
    await undefined;
  }
  expect(runs).toBe(13);
  await turn();
  expect(help.takes(stream(), 300_000, false)).toBe(true);
});

test("who runs nothing, and who has nobody else", () => {
  const help = new Help();
  expect(help.takes(stream({ helpBelowNs: 0 }), 1, false)).toBe(false);
  expect(help.takes(stream({ driver: "sim" }), 1, false)).toBe(false);
  expect(help.takes(stream({ opener: false }), 1, false)).toBe(false);
  expect(help.takes(stream({ coresUp: 0 }), 10e6, false)).toBe(true);
  expect(help.takes(stream({ driver: "inline" }), 900_000, false)).toBe(true);
  expect(help.takes(stream({ driver: "inline" }), 1_100_000, false)).toBe(false);
});
