/** Which programs the calling thread runs itself. */
import { setImmediate as turn } from "node:timers/promises";
import { Help } from "../../../dist/lib/runtime/help";
import type { StreamCore } from "../../../dist/lib/runtime/stream-core";

const stream = ({ driver = "threads", coresUp = 2, opener = true, helpBelowNs = 500_000 } = {}): StreamCore =>
  ({ machine: { driver: { name: driver, coresUp }, opener }, device: { options: { helpBelowNs } } }) as unknown as StreamCore;

/** How many programs of `costNs` run here, one after the other, before something else is said. */
async function runsHere(help: Help, of: StreamCore, costNs: number): Promise<number> {
  let runs = 0;
  while (runs < 1000 && help.place(of, costNs, false) === "HERE") {
    runs++;
    await undefined;
  }
  return runs;
}

test("what is shorter than a wake-up never goes to the cores, what is longer than the limit always", () => {
  const help = new Help();
  const places = Array.from({ length: 1000 }, () => help.place(stream(), 99_999, false));
  expect(places.filter((place) => place === "HERE")).toHaveLength(40);
  expect(places.filter((place) => place === "LATER")).toHaveLength(960);
  expect(help.place(stream(), 99_999, true)).toBe("HERE");
  expect(help.place(stream(), 500_000, false)).toBe("CORES");
  expect(help.place(stream(), 500_000, true)).toBe("CORES");
});

test.each([
  ["tiny programs", {}, 1, 400],
  ["tiny programs", {}, 80_000, 50],
  ["longer ones", {}, 300_000, 13],
  ["no cores", { driver: "inline" }, 900_000, 4],
  ["no cores yet", { coresUp: 0 }, 10e6, 1],
])("%s %j of %d ns: the event loop has its turn after 4 ms", async (_, options, costNs, runs) => {
  const help = new Help();
  expect(await runsHere(help, stream(options), costNs)).toBe(runs);
  expect(help.place(stream(options), costNs, false)).toBe(costNs === 300_000 ? "CORES" : "LATER"); // one is waiting for that turn already
  await turn();
  expect(await runsHere(help, stream(options), costNs)).toBe(runs);
});

test("a run that begins before the last one's result was taken goes to the cores", async () => {
  const help = new Help();
  expect(help.place(stream(), 300_000, false)).toBe("HERE");
  expect(help.place(stream(), 300_000, false)).toBe("CORES");
  expect(help.place(stream(), 300_000, true)).toBe("HERE"); // its caller waits in any case
  await undefined;
  expect(help.place(stream(), 300_000, false)).toBe("HERE");
});

test("who runs nothing, and who has nobody else", () => {
  const help = new Help();
  expect(help.place(stream({ helpBelowNs: 0 }), 1, false)).toBe("CORES");
  expect(help.place(stream({ driver: "sim" }), 1, false)).toBe("CORES");
  expect(help.place(stream({ opener: false }), 1, false)).toBe("CORES");
  expect(help.place(stream({ coresUp: 0 }), 30e6, false)).toBe("CORES");
  expect(help.place(stream({ driver: "inline" }), 1_100_000, false)).toBe("CORES");
});
