/** Parsers of option values. Whatever they refuse is wrong usage. */
import { InvalidArgumentError } from "commander";

export interface Assignment {
  readonly name: string;
  readonly value: string;
}

/** `name=value`, collected over every use of the option. */
export function assignments(text: string, previous: readonly Assignment[] = []): readonly Assignment[] {
  const at = text.indexOf("=");
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError('write it as "name=value".');
  return [...previous, { name: text.slice(0, at), value: text.slice(at + 1) }];
}

export function positiveInteger(name: string): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError(`${name} takes a whole number from 1 up.`);
    return value;
  };
}

export function nonNegativeInteger(name: string): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError(`${name} takes a whole number from 0 up.`);
    return value;
  };
}

/** What commander makes of the options of each command. */
export interface DeviceFlags {
  readonly driver: "threads" | "sim" | "inline";
  readonly cores?: number;
}

export interface RunFlags extends DeviceFlags {
  readonly input?: readonly Assignment[];
  readonly dim?: readonly Assignment[];
  readonly output?: readonly Assignment[];
  readonly repeat: number;
  readonly seed: number;
  readonly json?: boolean;
}

export interface InspectFlags {
  readonly dim?: readonly Assignment[];
  readonly json?: boolean;
}

export interface ReplFlags extends DeviceFlags {
  readonly interactive?: boolean;
}
