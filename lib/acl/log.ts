/** The log of 1.19: lines into a file per process, or on the screen. Nothing is opened before the first line that is to be written. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { threadId } from "node:worker_threads";

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;
const DEFAULT_LEVEL = 3;
const OFF = 4;

/** Level of a module: ASCEND_MODULE_LOG_LEVEL before ASCEND_GLOBAL_LOG_LEVEL. */
function levelFor(module: string): number {
  for (const part of (process.env["ASCEND_MODULE_LOG_LEVEL"] ?? "").split(":")) {
    const [name, level] = part.split("=");
    if (name === module && level !== undefined && /^[0-4]$/.test(level)) {
      return Number(level);
    }
  }
  const level = process.env["ASCEND_GLOBAL_LOG_LEVEL"];
  return level !== undefined && /^[0-4]$/.test(level) ? Number(level) : DEFAULT_LEVEL;
}

function folder(): string {
  const work = process.env["ASCEND_WORK_PATH"];
  const root = process.env["ASCEND_PROCESS_LOG_PATH"] ?? (work === undefined ? path.join(os.homedir(), "ascend", "log") : path.join(work, "log"));
  return path.join(root, "debug", "plog");
}

let file: string | undefined;

/** Writes a line of `module` if its level is on. A log that cannot be written is no reason to fail. */
export function logLine(level: number, module: string, message: string): void {
  if (level < levelFor(module) || level >= OFF || level < 0) {
    return;
  }
  const time = new Date().toISOString().replace("T", "-").replace("Z", "");
  const line = `[${LEVELS[level]}] ${module}(${process.pid},node):${time} tid:${threadId} ${message}\n`;
  if ((process.env["ASCEND_LOG_PRINT_TO_STDOUT"] ?? process.env["ASCEND_SLOG_PRINT_TO_STDOUT"]) === "1") {
    process.stdout.write(line);
    return;
  }
  try {
    if (file === undefined) {
      fs.mkdirSync(folder(), { recursive: true });
      file = path.join(folder(), `plog-${process.pid}_${Date.now()}.log`);
    }
    fs.appendFileSync(file, line);
  } catch {
    file = undefined;
  }
}
