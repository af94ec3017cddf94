/** How processes end, each in a child of its own: what was forgotten, what is in flight, what is cut short. */
import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";

const entry = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));

interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly ms: number;
}

/** Runs `script` (CommonJS; `npurt` and `open` are there) in a child. `during` gets the child when it has printed "busy". */
function run(script: string, during?: (child: ChildProcess) => void): Promise<Ending> {
  const head = `const npurt = require(${entry}); const { Device } = npurt; const { Worker, isMainThread } = require("node:worker_threads");
    const busy = () => process.stdout.write("busy\\n");
    const open = (options) => Device.open({ driver: "threads", cores: 2, memoryBytes: 64 << 20, ...options });\n`;
  const child = spawn(process.execPath, ["-e", head + script], { stdio: ["ignore", "pipe", "pipe"] });
  const started = performance.now();
  let out = "";
  let told = false;
  child.stdout.on("data", (text: Buffer) => {
    out += text.toString();
    if (!told && out.includes("busy")) {
      told = true;
      during?.(child);
    }
  });
  child.stderr.on("data", (text: Buffer) => {
    out += text.toString();
  });
  return new Promise((resolve) => {
    child.on("exit", (code, signal) => resolve({ code, signal, out, ms: performance.now() - started }));
  });
}

test.each(["threads", "inline", "sim"])("a forgotten close does not keep the process (%s)", async (driver) => {
  const { code, out } = await run(`open({ driver: "${driver}" }).then(async (device) => {
    await device.ready();
    const stream = device.createStream();
    stream.nop();
    await stream.synchronize();
    console.log("done");
  });`);
  expect({ code, out }).toEqual({ code: 0, out: "done\n" });
});

test("a device that boots is no reason to stay", async () => {
  const { code, out } = await run(`open().then(() => console.log("open"));`);
  expect({ code, out }).toEqual({ code: 0, out: "open\n" });
});

test.each(["threads", "inline", "sim"])("work in flight is finished, awaited or not (%s)", async (driver) => {
  const { code, out } = await run(`open({ driver: "${driver}" }).then((device) => {
    const stream = device.createStream();
    const buffer = device.allocate(64);
    const back = new Uint8Array(64);
    stream.launch({ probe: "spin", argument: 20000000 });
    stream.memset(buffer, 7);
    stream.memcpy(back, buffer);
    process.on("exit", () => console.log(back[63]));
  });`);
  expect({ code, out }).toEqual({ code: 0, out: "7\n" });
});

test("a promise nobody awaits still settles before the end", async () => {
  const { code, out } = await run(`open().then((device) => {
    const stream = device.createStream();
    stream.launch({ probe: "spin", argument: 20000000 });
    stream.synchronize().then(() => console.log("settled"));
  });`);
  expect({ code, out }).toEqual({ code: 0, out: "settled\n" });
});

test("process.exit leaves at once, whatever the cores do", async () => {
  const { code, ms } = await run(`open({ watchdogMs: 600000 }).then(async (device) => {
    await device.ready();
    const stream = device.createStream();
    stream.launch({ probe: "runaway" });
    stream.synchronize().catch(() => {});
    setTimeout(() => process.exit(3), 50);
  });`);
  expect(code).toBe(3);
  expect(ms).toBeLessThan(20_000);
});

test("SIGTERM ends a process whose cores are busy", async () => {
  const ending = await run(
    `open({ watchdogMs: 600000 }).then(async (device) => {
    await device.ready();
    const stream = device.createStream();
    stream.launch({ probe: "runaway" });
    stream.launch({ probe: "runaway" });
    stream.synchronize().catch(() => {});
    busy();
  });`,
    (child) => setTimeout(() => child.kill("SIGTERM"), 50),
  );
  expect(ending.signal).toBe("SIGTERM");
});

test("an exception that nobody catches ends the process with code 1", async () => {
  const { code, out } = await run(`open().then(async (device) => {
    device.createStream().launch({ probe: "spin", argument: 1000000000 });
    setTimeout(() => { throw new Error("boom"); }, 20);
  });`);
  expect(code).toBe(1);
  expect(out).toMatch(/boom/);
});

test("closing twice, closing while it boots, closing while it runs", async () => {
  const { code, out } = await run(`(async () => {
    const first = await open();
    await Promise.all([first.close(), first.close()]);
    const second = await open();
    second.createStream().launch({ probe: "spin", argument: 50000000 });
    await second.close({ timeoutMs: 0 });
    const third = await open();
    third.createStream().nop(1000);
    third.close();
    console.log("done");
  })();`);
  expect({ code, out }).toEqual({ code: 0, out: "done\n" });
});

test("devices inside worker threads end with their threads", async () => {
  const { code, out } = await run(`
    const source = ${JSON.stringify(`const { Device } = require(${entry}); const { parentPort } = require("node:worker_threads");
      Device.open({ driver: "threads", cores: 1, memoryBytes: 64 << 20 }).then(async (device) => {
        const stream = device.createStream(); stream.nop(10); await stream.synchronize(); parentPort.postMessage("ran"); });`)};
    (async () => {
      for (let i = 0; i < 3; i++) {
        const worker = new Worker(source, { eval: true });
        const exited = new Promise((resolve) => worker.once("exit", resolve));
        console.log(await new Promise((resolve) => worker.once("message", resolve)), await exited);
      }
      const worker = new Worker(source, { eval: true });
      await new Promise((resolve) => worker.once("message", resolve));
      console.log("terminated", await worker.terminate() >= 0);
    })();`);
  expect({ code, out }).toEqual({ code: 0, out: "ran 0\nran 0\nran 0\nterminated true\n" });
});

test("`using` closes devices, buffers and streams", async () => {
  const { code, out } = await run(`(async () => {
    const device = await open();
    const stream = device.createStream();
    const buffer = device.allocate(64);
    buffer[Symbol.dispose]();
    await stream[Symbol.asyncDispose]();
    await device[Symbol.asyncDispose]();
    device.close().then(() => console.log(buffer.disposed));
  })();`);
  expect({ code, out }).toEqual({ code: 0, out: "true\n" });
});
