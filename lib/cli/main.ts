#!/usr/bin/env node
/** The `npurt` command: parses, calls one command, and turns what comes out into an exit code (0 done, 1 failed, 2 wrong usage). */
import { CommanderError } from "commander";
import { errorText, UsageError } from "./output";
import { createProgram } from "./program";

async function main(argv: readonly string[]): Promise<number> {
  // A reader that has seen enough (`npurt inspect m.onnx | head`) is not an error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  try {
    await createProgram().parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    process.stderr.write(`${errorText(error, argv.includes("--verbose"))}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
}

void main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
