/** `npurt repl` with a script on its stdin: scope, await, commands, what fails, and that it ends. */
import { spawn } from "node:child_process";
import path from "node:path";

const root = path.join(__dirname, "../../..");
const main = path.join(root, "dist/lib/cli/main.js");
const DIGITS = JSON.stringify(path.join(root, "examples/digits/digits.onnx"));

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What becomes of `lines`, given all at once. */
function repl(lines: readonly string[], ...flags: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [main, "repl", "--cores", "1", ...flags]);
    const out = { stdout: "", stderr: "" };
    child.stdout.on("data", (data: Buffer) => {
      out.stdout += data.toString();
    });
    child.stderr.on("data", (data: Buffer) => {
      out.stderr += data.toString();
    });
    child.on("close", (code) => resolve({ code, ...out }));
    child.stdin.end(lines.join("\n"));
  });
}

test("both faces, the library's names and an open device are in scope; lines with await finish before the next", async () => {
  const { code, stdout, stderr } = await repl([
    `const executor = await Executor.load(${DIGITS}, { device })`,
    "(await executor.run({ image: new Float32Array(784) })).probability.dims",
    "const buffer = device.allocatePinned(64)",
    "if (buffer) {",
    "  buffer.view('int32')[3] = 41",
    "}",
    "buffer.view('int32')[3] + 1",
    "[acl.init(), acl.rt.set_device(0), acl.rt.get_device()]",
    "rt.rtGetDeviceCount()",
    "npurt.Executor === Executor && new npurt.AclError(107000, 'x') instanceof Error",
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.trim().split("\n")).toEqual(["[ 1, 10 ]", "41", "42", "[ 0, 0, [ 0, 0 ] ]", "[ 8, 0 ]", "true"]);
});

test("commands show devices, streams, memory and programs", async () => {
  const { code, stdout } = await repl([
    ".disassemble",
    `const executor = await Executor.load(${DIGITS}, { device })`,
    "const stream = device.createStream({ priority: 3 })",
    "stream.setFailureMode('STOP')",
    "stream.waitValue(device.allocate(2 ** 20), 7n, { compare: '==' })",
    ".devices",
    ".streams",
    ".memory",
    ".disassemble executor",
    ".disassemble nothing",
    "acl.init()",
    "acl.rt.set_device(2)",
    "acl.rt.create_stream()[0].toString(16)",
    ".streams",
  ]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^no loaded model; load one/);
  expect(stdout).toMatch(/63 +npurt +threads +1 +\S+ MiB of 1\.00 GiB +1\n/);
  expect(stdout).toMatch(/\d+ +0 +3 +STOP +LIVE +1 +wait_value/);
  expect(stdout).toMatch(/user +1\.00 MiB +0x[0-9a-f]+/);
  expect(stdout).toMatch(/digits on device 63\nprogram: .*\nregion 0/);
  expect(stdout).toContain('no loaded model "nothing"');
  const [, handle] = /'([0-9a-f]+)'/.exec(stdout) as RegExpExecArray;
  expect(stdout).toMatch(new RegExp(`CONTINUE +LIVE +0 +0x${handle}`));
});

test("a line that fails is told, the next ones run, and the exit code is 1; .exit ends with work in flight", async () => {
  const failing = await repl(["nosuch", "await Promise.reject(new Error('late'))", "6 * 7"], "--driver", "inline");
  expect(failing.stdout).toMatch(/Uncaught ReferenceError: nosuch[\s\S]*Uncaught Error: late[\s\S]*\n42\n/);
  expect(failing).toMatchObject({ code: 1, stderr: expect.stringContaining("2 lines failed") });
  const runaway = await repl(["device.createStream().launch({ probe: 'runaway' })", ".exit", "never"]);
  expect(runaway).toEqual({ code: 0, stdout: "", stderr: "" });
});

test("--interactive shows banner and prompt, and a failed line is no failure of the session", async () => {
  const { code, stdout } = await repl(["nosuch", "1 + 1"], "-i", "--driver", "sim");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^npurt \d+\.\d+\.\d+ on Node\.js v\d+/);
  expect(stdout).toMatch(/device 63: sim, 1 core, 1\.00 GiB/);
  expect(stdout).toContain("npurt> 2\n");
});
