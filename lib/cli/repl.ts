/** `npurt repl`: a JavaScript prompt with a device and both faces in scope, and commands that show what the devices are doing. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { type REPLServer, start } from "node:repl";
import { PassThrough } from "node:stream";
import vm from "node:vm";
import { acl } from "../acl/acl";
import { rt } from "../acl/rt";
import * as npurt from "../index";
import { openDevices } from "../runtime/device-core";
import { formatBytes, print } from "./output";
import type { ReplFlags } from "./arguments";
import { devicesView, memoryView, programsView, streamsView } from "./views";

/** The devices of npurt/acl are numbered from 0 up; this one is out of their way. */
const DEVICE = 63;
const HISTORY = ".npurt_repl_history";

function banner(device: npurt.Device, version: string): string {
  const { driver, cores, memoryBytes } = device.info();
  return [
    `npurt ${version} on Node.js ${process.version}`,
    `  device    device ${device.id}: ${driver}, ${cores} core${cores === 1 ? "" : "s"}, ${formatBytes(memoryBytes)}`,
    "  npurt     the library; Executor, Tensor, Kernel and the other names are in scope too",
    "  acl, rt   the parity faces: acl.init(); acl.rt.set_device(0)",
    "await works at the prompt. .devices .streams .memory .disassemble show the state, .help the rest; .exit leaves.",
    "",
  ].join("\n");
}

/** What is in scope by name. The prompt's scope is the process's own (arrays made there are of the library's kind), so `Event` stays the web's. */
function fillScope(server: REPLServer, device: npurt.Device): void {
  const free = Object.entries(npurt).filter(([name]) => !(name in globalThis));
  Object.assign(server.context, Object.fromEntries(free), { npurt, acl, rt, device });
}

/** What the name of a variable stands for; undefined if it is none. */
function variable(name: string): unknown {
  try {
    // As an expression: what const and let declare at the prompt is no property of anything.
    return /^[\w$.]+$/.test(name) ? vm.runInThisContext(name) : undefined;
  } catch {
    return undefined;
  }
}

async function disassembly(argument: string): Promise<string> {
  const value = variable(argument);
  const metadata = value instanceof npurt.Executor ? value.metadata : undefined;
  const text = await programsView(({ name, info }) => argument === "" || name === argument || info === metadata);
  const what = argument === "" ? "" : ` "${argument}"`;
  return text === "" ? `no loaded model${what}; load one: const e = await Executor.load("model.onnx")` : text;
}

function addCommands(server: REPLServer): void {
  const define = (name: string, help: string, view: (argument: string) => string | Promise<string>): void => {
    server.defineCommand(name, {
      help,
      async action(argument) {
        this.clearBufferedCommand();
        const text = await Promise.resolve(argument.trim())
          .then(view)
          .catch((error: Error) => error.message);
        this.output.write(`${text}\n`);
        this.displayPrompt();
      },
    });
  };
  define("devices", "The open devices, their memory and tasks in flight", devicesView);
  define("streams", "The streams of each device, and what stands at their head", streamsView);
  define("memory", "Memory of each device: used, free, the largest allocations", memoryView);
  define("disassemble", "Programs of loaded models: all, of one model by name, or of the executor in a variable", disassembly);
}

/** Keeps the history in the home folder, if that can be written. */
function keepHistory(server: REPLServer): Promise<number> {
  const home = os.homedir();
  try {
    fs.accessSync(home, fs.constants.W_OK);
  } catch {
    return Promise.resolve(0);
  }
  return new Promise((resolve) => server.setupHistory(path.join(home, HISTORY), () => resolve(0)));
}

/** Gives the lines of stdin to the server one by one, each when the one before has been evaluated: from a pipe they would all come at once. Resolves to how many failed. */
async function feed(server: REPLServer, input: PassThrough, talks: boolean): Promise<number> {
  let failed = 0;
  let ready: () => void = () => {};
  const prompt = server.displayPrompt.bind(server);
  server.displayPrompt = (preserveCursor) => {
    if (talks) {
      prompt(preserveCursor);
    }
    ready();
  };
  let left = false;
  server.once("exit", () => {
    left = true;
    ready();
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const evaluated = new Promise<void>((resolve) => {
      ready = resolve;
    });
    const before: unknown = server.lastError;
    input.write(`${line}\n`);
    await evaluated;
    failed += server.lastError === before ? 0 : 1;
    if (left) {
      break;
    }
  }
  input.end();
  return failed;
}

async function closeDevices(): Promise<void> {
  acl.finalize();
  await Promise.all([...openDevices.values()].map((core) => core.close(0)));
}

export async function repl(flags: ReplFlags): Promise<void> {
  const { version } = require("../../../package.json") as { version: string };
  const device = await npurt.Device.open({
    device: DEVICE,
    driver: flags.driver,
    ...(flags.cores === undefined ? {} : { cores: flags.cores }),
  });
  const terminal = process.stdin.isTTY === true;
  const talks = flags.interactive === true || terminal;
  if (talks) {
    print(banner(device, version));
  }
  const piped = new PassThrough();
  const server = start({
    prompt: talks ? "npurt> " : "",
    useGlobal: true,
    ignoreUndefined: !talks,
    ...(terminal ? { breakEvalOnSigint: true } : { input: piped, output: process.stdout }),
  });
  fillScope(server, device);
  addCommands(server);
  const left = new Promise<void>((resolve) => server.once("exit", resolve));
  const failed = terminal ? await keepHistory(server) : await feed(server, piped, talks);
  await left;
  await closeDevices();
  if (failed > 0 && !talks) {
    throw new Error(`${failed} line${failed === 1 ? "" : "s"} failed; see above`);
  }
}
