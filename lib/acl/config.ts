/** The JSON file of `init`: CANN's keys, and an `emulator` block that says what kind of devices there are. */
import fs from "node:fs";
import { AclError } from "../errors/acl-error";
import { checkInteger, checkOptions, invalidParam, nearestName } from "../errors/make";
import { MAX_MEMORY_BYTES, MIN_MEMORY_BYTES } from "../host/memory";
import { DEFAULT_SOC, SOC_PROFILES, type SocProfile, socProfile } from "./soc";

export interface EmulatorConfig {
  /** Devices that are there. Default 8; one that is not used costs nothing. */
  readonly devices?: number;
  /** Name of a profile; see SOC_PROFILES. */
  readonly soc?: string;
  /** Bytes of each device's memory. */
  readonly memory?: number;
  /** Worker threads of each device. */
  readonly cores?: number;
  readonly driver?: "threads" | "sim" | "inline";
  /** "virtual" is the sim driver. */
  readonly clock?: "virtual" | "wall";
  readonly seed?: number;
  readonly faults?: { readonly stall?: number; readonly skippedWakeUp?: number };
  /** Streams that may be at work at once; 0 = no limit. */
  readonly lanes?: number;
  /** A kernel that runs longer is stopped. */
  readonly watchdogMs?: number;
  readonly trace?: boolean | number;
}

export interface Config {
  readonly emulator: EmulatorConfig;
  readonly soc: SocProfile;
  readonly devices: number;
  /** Device that a call without context sets implicitly. */
  readonly defaultDevice: number | undefined;
  /** 0 per thread, 1 for the whole process. */
  readonly errorScope: 0 | 1;
  readonly stackBytes: number | undefined;
}

const DEPTH_LIMIT = 10;
const KEYS: readonly (keyof EmulatorConfig)[] = [
  "devices",
  "soc",
  "memory",
  "cores",
  "driver",
  "clock",
  "seed",
  "faults",
  "lanes",
  "watchdogMs",
  "trace",
];
const STACK_UNIT = 16 * 1024;

function depthOf(value: unknown): number {
  return value !== null && typeof value === "object" ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
}

function readJson(path: string): Record<string, unknown> {
  let json: string;
  try {
    json = fs.readFileSync(path, "utf8");
  } catch (error) {
    throw new AclError(100003, `init: ${path} cannot be read (${(error as Error).message}); pass the path of a JSON file, or none`, { cause: error });
  }
  return parseJson(json, path);
}

export function parseJson(json: string, path: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = json.trim() === "" ? {} : JSON.parse(json);
  } catch (error) {
    throw new AclError(100006, `init: ${path} is no JSON: ${(error as Error).message}`, { cause: error });
  }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
    throw new AclError(100006, `init: ${path} must hold a JSON object`);
  }
  if (depthOf(parsed) > DEPTH_LIMIT) {
    throw new AclError(100006, `init: ${path} is nested deeper than ${DEPTH_LIMIT} levels; flatten it`);
  }
  return parsed as Record<string, unknown>;
}

function oneOf(name: string, value: unknown, known: readonly string[]): void {
  if (value !== undefined && !known.includes(value as string)) {
    throw invalidParam(
      `init: emulator.${name} is "${String(value)}"; did you mean "${nearestName(String(value), known)}"? Valid: ${known.join(", ")}`,
    );
  }
}

function checkEmulator(emulator: EmulatorConfig): void {
  const where = "init: emulator";
  checkOptions(where, emulator, KEYS);
  checkInteger(where, "devices", emulator.devices, 1, 63);
  checkInteger(where, "memory", emulator.memory, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES);
  checkInteger(where, "cores", emulator.cores, 1, 64);
  checkInteger(where, "lanes", emulator.lanes, 0, 4096);
  oneOf("driver", emulator.driver, ["threads", "sim", "inline"]);
  oneOf("clock", emulator.clock, ["virtual", "wall"]);
  oneOf(
    "soc",
    emulator.soc,
    SOC_PROFILES.map(({ name }) => name),
  );
  const virtual = emulator.clock === "virtual";
  if (emulator.driver !== undefined && emulator.clock !== undefined && virtual !== (emulator.driver === "sim")) {
    throw invalidParam(
      `${where}: clock "${emulator.clock}" and driver "${emulator.driver}" do not go together; the sim driver has the virtual clock, the others the wall's`,
    );
  }
}

function stackBytes(json: Record<string, unknown>): number | undefined {
  const size = (json["StackSize"] as { aicore_stack_size?: unknown } | undefined)?.aicore_stack_size;
  if (size === undefined) {
    return undefined;
  }
  if (!Number.isInteger(size) || (size as number) % STACK_UNIT !== 0 || (size as number) < 2 * STACK_UNIT || (size as number) > 12 * STACK_UNIT) {
    throw invalidParam(`init: StackSize.aicore_stack_size is ${String(size)}; pass a multiple of 16384 from 32768 to 196608`);
  }
  return size as number;
}

/** Keys of a parsed file as what they mean. @throws AclError */
export function readConfig(json: Record<string, unknown>): Config {
  const emulator = (json["emulator"] ?? {}) as EmulatorConfig;
  checkEmulator(emulator);
  const devices = emulator.devices ?? 8;
  const scope = json["err_msg_mode"];
  if (scope !== undefined && Number(scope) !== 0 && Number(scope) !== 1) {
    throw invalidParam(`init: err_msg_mode is ${String(scope)}; pass 0 (per thread) or 1 (the process)`);
  }
  const fallback = (json["defaultDevice"] as { default_device?: unknown } | undefined)?.default_device;
  if (fallback !== undefined && !(Number.isInteger(Number(fallback)) && Number(fallback) >= 0 && Number(fallback) < devices)) {
    throw new AclError(107001, `init: defaultDevice.default_device is ${String(fallback)}; pass 0 to ${devices - 1}`);
  }
  return {
    emulator,
    soc: socProfile(emulator.soc ?? DEFAULT_SOC) as SocProfile,
    devices,
    defaultDevice: fallback === undefined ? undefined : Number(fallback),
    errorScope: Number(scope ?? 0) as 0 | 1,
    stackBytes: stackBytes(json),
  };
}

/** The text of the file at `path` after it has been checked; "{}" without a path. @throws AclError */
export function loadConfigText(path: string | undefined): string {
  if (path === undefined || path === "") {
    return "{}";
  }
  const json = readJson(path);
  readConfig(json);
  return JSON.stringify(json);
}
