/** The commands and their options. A command's own file is loaded only when it is called. */
import { Command, Option } from "commander";
import { assignments, type InspectFlags, nonNegativeInteger, positiveInteger, type ReplFlags, type RunFlags } from "./arguments";

export function createProgram(): Command {
  const program = new Command("npurt")
    .description("An NPU runtime for Node.js: runs, inspects and measures models on an emulated device.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show the help of a command")
    .showSuggestionAfterError(true)
    .showHelpAfterError("npurt --help lists the commands.")
    .exitOverride();
  addRun(program);
  addInspect(program);
  addRepl(program);
  addDoctor(program);
  program.addHelpText("after", "\nExit codes: 0 done, 1 failed, 2 wrong usage.\nUnexpected error? --verbose shows where it came from.");
  return program;
}

function packageVersion(): string {
  return (require("../../../package.json") as { version: string }).version;
}

function addRun(program: Command): void {
  program
    .command("run <model>")
    .showHelpAfterError("npurt run --help lists its options.")
    .description("run an ONNX model and show its outputs and times")
    .option("-i, --input <name=file.npy|random>", "feed an input from a .npy file; inputs left out get random values", assignments)
    .option("-o, --output <name=file.npy>", "write an output to a .npy file", assignments)
    .option("-d, --dim <name=size>", "size of a dim that the model leaves open (default 1)", assignments)
    .option("-r, --repeat <n>", "run n times and show median and 95th percentile", positiveInteger("--repeat"), 1)
    .option("--seed <n>", "seed of the random inputs", nonNegativeInteger("--seed"), 1)
    .addOption(new Option("--driver <name>", "how the device runs").choices(["threads", "inline", "sim"]).default("threads"))
    .option("--cores <n>", "cores of the device (default: all that this process may use)", positiveInteger("--cores"))
    .option("--json", "print one JSON object")
    .option("--verbose", "show the stack of an error")
    .addHelpText(
      "after",
      "\nExamples:\n  $ npurt run mnist.onnx\n  $ npurt run mnist.onnx --input image=digit.npy --output score=score.npy\n  $ npurt run digits.onnx --dim N=64 --repeat 100 --json",
    )
    .action(async (model: string, flags: RunFlags) => {
      await (require("./run") as typeof import("./run")).run(model, flags);
    });
}

function addInspect(program: Command): void {
  program
    .command("inspect <model>")
    .showHelpAfterError("npurt inspect --help lists its options.")
    .description("show a model's graph, its program for the device, and its memory plan")
    .option("-d, --dim <name=size>", "size of a dim that the model leaves open (default 1)", assignments)
    .option("--json", "print one JSON object")
    .option("--verbose", "show the stack of an error")
    .action(async (model: string, flags: InspectFlags) => {
      await (require("./inspect") as typeof import("./inspect")).inspect(model, flags);
    });
}

function addRepl(program: Command): void {
  program
    .command("repl")
    .showHelpAfterError("npurt repl --help lists its options.")
    .description("a JavaScript prompt with a device, npurt, npurt/acl and npurt/rt in scope; reads a script from a pipe too")
    .addOption(new Option("--driver <name>", "how the device runs").choices(["threads", "inline", "sim"]).default("threads"))
    .option("--cores <n>", "cores of the device (default: all that this process may use)", positiveInteger("--cores"))
    .option("-i, --interactive", "show banner and prompt even if input is no terminal")
    .option("--verbose", "show the stack of an error")
    .addHelpText("after", "\nExamples:\n  $ npurt repl\n  $ echo 'device.info().freeBytes' | npurt repl")
    .action(async (flags: ReplFlags) => {
      await (require("./repl") as typeof import("./repl")).repl(flags);
    });
}

function addDoctor(program: Command): void {
  program
    .command("doctor")
    .showHelpAfterError("npurt doctor --help lists its options.")
    .description("check this machine: Node.js, CPUs, WebAssembly, addon; opens a device and runs on it")
    .option("--json", "print one JSON object")
    .option("--verbose", "show the stack of an error")
    .action(async (flags: { json?: boolean }) => {
      await (require("./doctor") as typeof import("./doctor")).doctor(flags);
    });
}
