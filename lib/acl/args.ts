/**
 * What the arguments of parity calls may be. A check refuses a wrong JavaScript type with 100000, where pyACL's binding would throw TypeError before it
 * calls C; whether the value makes sense is for the call itself.
 */
import { AclError } from "../errors/acl-error";

/** Wrong JavaScript types and counts of arguments, which C's compiler or pyACL's binding would refuse. */
export const INVALID_PARAM = 100000;
const SHOWN_LENGTH = 40;

/** One argument: its name in texts and docs, its type in words, and the check that returns it as the call wants it. */
export interface Arg<T> {
  readonly name: string;
  readonly type: string;
  readonly optional: boolean;
  /** Any safe integer passes as it is: most arguments are such, and need no call to be told. */
  readonly takesIntegers?: boolean;
  /** @throws AclError 100000 */
  check(value: unknown, call: string): T;
}

/** A typed array or buffer stands for the address of its bytes. */
export type Pointer = number | ArrayBufferView;

/** What was given instead; of a string its beginning. Never asks an object for anything: it may be a proxy that throws. */
function shown(value: unknown): string {
  switch (typeof value) {
    case "number":
    case "bigint":
    case "boolean":
      return `${typeof value} ${value}`;
    case "string":
      return `string ${JSON.stringify(value.slice(0, SHOWN_LENGTH))}`;
    case "object":
      return value === null ? "null" : "object";
    default:
      return typeof value;
  }
}

function wrongType(call: string, name: string, type: string, value: unknown): AclError {
  return new AclError(INVALID_PARAM, `${call}: argument ${name} must be ${type}, not ${shown(value)}`);
}

function arg<T>(name: string, type: string, convert: (value: unknown) => T | undefined): Arg<T> {
  return {
    name,
    type,
    optional: false,
    check(value, call) {
      const converted = convert(value);
      if (converted === undefined) {
        throw wrongType(call, name, type, value);
      }
      return converted;
    },
  };
}

function whole(value: unknown): number | undefined {
  if (typeof value === "bigint" && value >= -(2n ** 53n) && value <= 2n ** 53n) {
    return Number(value);
  }
  return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
}

/** A whole number. */
export const integer = (name: string): Arg<number> => ({ ...arg(name, "an integer", whole), takesIntegers: true });

/** An integer handle; 0 is the null handle. */
export const handle = (name: string): Arg<number> => ({ ...arg(name, "an integer handle", whole), takesIntegers: true });

/** A 64-bit word: an integer, or a BigInt where a number is not exact. */
export const word64 = (name: string): Arg<number | bigint> =>
  arg<number | bigint>(name, "an integer", (value) => (typeof value === "bigint" ? value : whole(value)));

export const real = (name: string): Arg<number> => arg(name, "a number", (value) => (typeof value === "number" ? value : undefined));

export const text = (name: string): Arg<string> => arg(name, "a string", (value) => (typeof value === "string" ? value : undefined));

/** An address as a number, or a typed array that stands for its own bytes. */
export const pointer = (name: string): Arg<Pointer> => ({
  ...arg<Pointer>(name, "an address or a typed array", (value) => (ArrayBuffer.isView(value) ? value : whole(value))),
  takesIntegers: true,
});

export const bytes = (name: string): Arg<ArrayBufferView> =>
  arg(name, "a Buffer or typed array", (value) => (ArrayBuffer.isView(value) ? value : undefined));

// biome-ignore lint/suspicious/noExplicitAny: the caller knows what it gives its own callback.
type Callback = (argument: any) => unknown;

/** A function of this thread, or the name of an export of the module that `util.start_thread` was given. */
export const callback = (name: string): Arg<Callback | string> =>
  arg<Callback | string>(name, "a function, or the name of an export of the serving thread's module", (value) =>
    typeof value === "function" ? (value as Callback) : typeof value === "string" ? value : undefined,
  );

/** A function of this thread. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export const func = <F extends (...args: any[]) => unknown>(name: string): Arg<F> =>
  arg<F>(name, "a function", (value) => (typeof value === "function" ? (value as F) : undefined));

/** A function, or null to take an earlier one away. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export const callbackOrNull = <F extends (...args: any[]) => unknown>(name: string): Arg<F | null> => {
  const inner = arg<F | "none">(name, "a function or null", (value) =>
    typeof value === "function" ? (value as F) : value === null || value === undefined ? "none" : undefined,
  );
  return { ...inner, check: (value, call) => (inner.check(value, call) === "none" ? null : (value as F)) };
};

/** Any value: handed to a callback as it is. */
export const anything = (name: string): Arg<unknown> => ({ name, type: "any value", optional: false, check: (value) => value });

export const list = <T>(name: string, of: (name: string) => Arg<T>): Arg<readonly T[]> => {
  const item = of(`${name}[]`);
  return {
    name,
    type: `a list; each item ${item.type}`,
    optional: false,
    check(value, call) {
      if (!Array.isArray(value)) {
        throw wrongType(call, name, "a list", value);
      }
      return value.map((each) => item.check(each, call));
    },
  };
};

/** An object whose keys the call reads itself. */
export const dict = <T extends object = Readonly<Record<string, unknown>>>(name: string): Arg<T> =>
  arg(name, "an object", (value) => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as T) : undefined));

/** May be left out, or be null or undefined. Only at the end of the arguments. */
export const optional = <T>(inner: Arg<T>): Arg<T | undefined> => ({
  ...inner,
  optional: true,
  check: (value, call) => (value === undefined || value === null ? undefined : inner.check(value, call)),
});
