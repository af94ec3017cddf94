/** Which programs the calling thread runs itself. */
import { setImmediate as turn } from "node:timers/promises";
import { Help } from "../../../dist/lib/runtime/help";
import type { StreamCore } from "../../../dist/lib/runtime/stream-core";

const stream = ({ driver = "threads", coresUp = 2, opener = true, helpBelowNs = 500_000 } = {}): StreamCore =>
  ({ machine: { driver: { name: driver, coresUp }, opener }, device: { options: { helpBelowNs } } }) as unknown as StreamCore;

test("what is shorter than a wake-up always runs here, what is longer than the limit never", () => {
  const help = new Help();
  for (let i = 0; i < 1000; i++) expect(help.place(stream(), 99_999, false)).toBe("HERE");
  expect(help.place(stream(), 500_000, false)).toBe("CORES");
  expect(help.place(stream(), 500_000, true)).toBe("CORES");
});

test("a run that begins before the last one's result was taken goes to the cores", async () => {
  const help = new Help();
  expect(help.place(stream(), 300_000, false)).toBe("HERE");
  expect(help.place(stream(), 300_000, false)).toBe("CORES");
  expect(help.place(stream(), 300_000, true)).toBe("HERE"); // its caller waits in any case
  await undefined;
  expect(help.place(stream(), 300_000, false)).toBe("HERE");
});

test("the event loop has its turn after 4 ms of runs", async () => {
  const help = new Help();
  let runs = 0;
  while (help.place(stream(), 300_000, false) === "HERE") {
    runs++;
    await undefined;
  }
  expect(runs).toBe(13);
  expect(help.place(stream(), 300_000, false)).toBe("CORES"); // one is waiting for that turn already
  await turn();
  expect(help.place(stream(), 300_000, false)).toBe("HERE");
});

test("who runs nothing, and who has nobody else", () => {
  const help = new Help();
  expect(help.place(stream({ helpBelowNs: 0 }), 1, false)).toBe("CORES");
  expect(help.place(stream({ driver: "sim" }), 1, false)).toBe("CORES");
  expect(help.place(stream({ opener: false }), 1, false)).toBe("CORES");
  expect(help.place(stream({ coresUp: 0 }), 10e6, false)).toBe("HERE");
  expect(help.place(stream({ driver: "inline" }), 900_000, false)).toBe("HERE");
  expect(help.place(stream({ driver: "inline" }), 1_100_000, false)).toBe("CORES");
});
