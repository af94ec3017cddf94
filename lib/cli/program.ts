/** The commands and their options. A command's own file is loaded only when it is called. */
import { Command } from "commander";
import type { Assignment } from "./arguments";

export interface DeviceFlags {
  readonly driver: "threads" | "sim" | "inline";
  readonly cores?: number;
}

export interface RunFlags extends DeviceFlags {
  readonly input: readonly Assignment[];
  readonly dim: readonly Assignment[];
  readonly output: readonly Assignment[];
  readonly repeat: number;
  readonly seed: number;
  readonly json?: boolean;
}

export interface InspectFlags {
  readonly dim: readonly Assignment[];
  readonly json?: boolean;
}

export function createProgram(): Command {
  const program = new Command("npurt")
    .description("An NPU runtime for Node.js: runs, inspects and measures models on an emulated device.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show the help of a command")
    .showSuggestionAfterError(true)
    .showHelpAfterError("(npurt --help lists the commands and options)")
    .exitOverride();
  addDoctor(program);
  program.addHelpText("after", "\nExit codes: 0 done, 1 failed, 2 wrong usage.\nUnexpected error? --verbose shows where it came from.");
  return program;
}

function packageVersion(): string {
  return (require("../../../package.json") as { version: string }).version;
}

function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("check this machine: Node.js, CPUs, WebAssembly, addon; opens a device and runs on it")
    .option("--json", "print one JSON object")
    .option("--verbose", "show the stack of an error")
    .action(async (flags: { json?: boolean }) => {
      await (require("./doctor") as typeof import("./doctor")).doctor(flags);
    });
}
