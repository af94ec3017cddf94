import { spawnSync } from "node:child_process";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { addonAbsence, loadAddon } from "../../../dist/lib/host/addon";

const addon = loadAddon();
const loader = path.join(__dirname, "../../../dist/lib/host/addon.js");
const suite = addon === undefined ? describe.skip : describe;
if (addon === undefined) console.log(`skipped: ${addonAbsence()}`);

/** A child process that runs `source`, where `addon` is loaded. */
function child(source: string): { status: number | null; stdout: string; stderr: string } {
  const prelude = `const { Worker, isMainThread } = require("node:worker_threads"); const addon = require(${JSON.stringify(loader)}).loadAddon();`;
  return spawnSync(process.execPath, ["-e", prelude + source], { encoding: "utf8", timeout: 20_000 });
}
/** Source of a worker that runs `source`, where `addon` is loaded. */
const inWorker = (source: string): string => JSON.stringify(`const addon = require(${JSON.stringify(loader)}).loadAddon(); ${source}`);

suite("wakers", () => {
  test("a signal from another thread calls the function on the thread that made it", async () => {
    const woken = new Promise<void>((resolve) => {
      const token = addon!.createWaker(() => {
        addon!.closeWaker(token);
        resolve();
      });
      new Worker(`const addon = require(${JSON.stringify(loader)}).loadAddon(); addon.signal(${token});`, { eval: true });
    });
    await woken;
  });

  test("signals merge, and none is lost after the last call", async () => {
    let calls = 0;
    let seen = 0;
    let sent = 0;
    const token = addon!.createWaker(() => {
      calls++;
      seen = sent;
    });
    for (let i = 0; i < 1000; i++) {
      sent++;
      expect(addon!.signal(token)).toBe(true);
    }
    while (seen < sent) await new Promise((resolve) => setImmediate(resolve));
    addon!.closeWaker(token);
    expect(calls).toBeGreaterThanOrEqual(1);
    expect(calls).toBeLessThan(1000);
  });

  test("a closed waker is never called, takes no signal, and may be closed again", async () => {
    let calls = 0;
    const token = addon!.createWaker(() => calls++);
    addon!.signal(token);
    addon!.closeWaker(token);
    addon!.closeWaker(token);
    expect(addon!.signal(token)).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls).toBe(0);
  });

  test("wrong arguments are TypeErrors", () => {
    const wrong = addon as unknown as Record<string, (...values: unknown[]) => unknown>;
    expect(() => wrong["createWaker"]!(1)).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["signal"]!("1")).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["setAffinity"]!("0")).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["setAffinity"]!([-1])).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["returnPages"]!(new SharedArrayBuffer(8))).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["readInto"]!(0, new Float32Array(4), 0)).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["readInto"]!(-1, new Uint8Array(4), 0)).toThrow(expect.objectContaining({ name: "TypeError" }));
    expect(() => wrong["readInto"]!(0, new Uint8Array(4), 0.5)).toThrow(expect.objectContaining({ name: "TypeError" }));
  });

  test("an idle waker lets the process end; a referenced one keeps it until it is closed", () => {
    expect(child("addon.createWaker(() => {}); console.log('end');")).toMatchObject({ status: 0, stdout: "end\n" });
    const kept = child(`
      const token = addon.createWaker(() => { console.log("woken"); addon.closeWaker(token); });
      addon.refWaker(token, true);
      setTimeout(() => addon.signal(token), 30).unref();`);
    expect(kept).toMatchObject({ status: 0, stdout: "woken\n" });
  });

  test("an error thrown by the function is an uncaught exception", () => {
    const thrown = child(`
      process.on("uncaughtException", (error) => { console.log(error.message); process.exit(0); });
      const token = addon.createWaker(() => { throw new Error("from the waker"); });
      addon.refWaker(token, true); addon.signal(token);`);
    expect(thrown).toMatchObject({ status: 0, stdout: "from the waker\n" });
  });

  test("threads that end or are terminated with open wakers and reads in flight do no harm", () => {
    const worker = inWorker(`
      const fs = require("node:fs"), { parentPort } = require("node:worker_threads");
      for (let i = 0; i < 10; i++) addon.signal(addon.createWaker(() => {}));
      const fd = fs.openSync(process.execPath, "r");
      const view = new Uint8Array(new SharedArrayBuffer(1 << 20));
      for (let i = 0; i < 8; i++) addon.readInto(fd, view, i << 20);
      parentPort.postMessage(addon.createWaker(() => {}));
      process.env.STAY === "1" && setInterval(() => {}, 1000);`);
    const result = child(`
      let left = 40;
      for (let i = 0; i < 40; i++) {
        const stay = i % 2 === 0;
        const worker = new Worker(${worker}, { eval: true, env: { STAY: stay ? "1" : "0" } });
        worker.on("message", (token) => { addon.signal(token); if (stay) worker.terminate(); setImmediate(() => addon.signal(token)); });
        worker.on("exit", () => { if (--left === 0) console.log("all ended"); });
      }`);
    expect(result).toMatchObject({ status: 0, stdout: "all ended\n", stderr: "" });
  });

  test("pinning holds for the calling thread alone", () => {
    const before = addon!.affinity();
    if (!Array.isArray(before) || before.length < 2) return;
    const result = child(`
      const worker = new Worker(${inWorker(`
        const cpu = addon.affinity().at(-1);
        addon.setAffinity([cpu]);
        console.log(JSON.stringify([addon.affinity(), addon.currentCpu()]));`)}, { eval: true });
      worker.on("exit", () => console.log(JSON.stringify(addon.affinity())));`);
    const last = before.at(-1);
    expect(result.stdout).toBe(`[[${last}],${last}]\n${JSON.stringify(before)}\n`);
  });
});
