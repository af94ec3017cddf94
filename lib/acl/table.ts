/**
 * The table behind `npurt/acl`. A family file holds entries; from an entry come the function on the `acl` object (arguments checked, errors caught),
 * its type, and its row in docs/acl.md. There is no other place where a parity call is described.
 */
import { AclError } from "../errors/acl-error";
import { type Arg, INVALID_PARAM } from "./args";
import { asAclError, note, SUCCESS } from "./last-error";

/**
 * What a call returns besides its code:
 * "ret" nothing; "[value, ret]" one value; "[...values, ret]" several; "value" the bare value, as pyACL's getters and creators do.
 */
export type Returns = "ret" | "[value, ret]" | "[...values, ret]" | "value";

export interface Call<A extends readonly unknown[] = readonly unknown[], R = unknown, K extends Returns = Returns> {
  /** C name; several if pyACL has one function for them. */
  readonly c: string;
  readonly args: { readonly [I in keyof A]: Arg<A[I]> };
  readonly returns: K;
  /** One sentence. */
  readonly doc: string;
  /** What stands in place of the value when the call fails. */
  readonly none?: NoInfer<R> | undefined;
  /** The caller blocks until the device has done something. */
  readonly blocks?: boolean;
  /** The call answers with this code by design: why stands in `doc`. */
  readonly refused?: number;
  /** This call reads or writes the error state itself, so its own answer is no error of the thread. */
  readonly quiet?: boolean;
  /** Validated arguments in, value out. @throws AclError */
  run(...args: NoInfer<A>): R;
}

/** An entry. The bounds make TypeScript infer the tuple of argument types. */
export function call<const A extends readonly unknown[], R, const K extends Returns>(entry: Call<A, R, K>): Call<A, R, K> {
  return entry;
}

type Optionals<A extends readonly unknown[]> = A extends readonly [...infer Rest, infer Last]
  ? undefined extends Last
    ? Optionals<Rest> | A
    : A
  : A;

/** The function that an entry becomes. */
export type Bound<E> =
  E extends Call<infer A, infer R, infer K>
    ? (
        ...args: Optionals<A> extends infer O extends readonly unknown[] ? O : never
      ) => K extends "ret"
        ? number
        : K extends "[value, ret]"
          ? [R, number]
          : K extends "[...values, ret]"
            ? R extends readonly unknown[]
              ? [...R, number]
              : never
            : R
    : never;

// biome-ignore lint/suspicious/noExplicitAny: entries of different argument types share one record; `any` is the only supertype of their `run`.
export type Family = Readonly<Record<string, Call<any, any, any>>>;
export type BoundFamily<F extends Family> = { readonly [N in keyof F]: Bound<F[N]> };

/** A call by its full name, as docs and tests see it. */
export interface TableRow {
  readonly name: string;
  readonly call: Call;
}

const rows: TableRow[] = [];

/** Every call that was bound, in order. */
export function tableRows(): readonly TableRow[] {
  return rows;
}

/** An error that still has something to say in place of the value, such as the index of the entry that was wrong. */
export class AclFailure extends AclError {
  readonly value: unknown;

  constructor(error: AclError, value: unknown) {
    super(error.code, error.message, { reason: error.reason, solution: error.solution, cause: error });
    this.value = value;
  }
}

function answer(entry: Call, value: unknown, code: number): unknown {
  switch (entry.returns) {
    case "ret":
      return code;
    case "[value, ret]":
      return [value ?? null, code]; // a structure that could not be read is null
    case "[...values, ret]":
      return [...(value as readonly unknown[]), code];
    default:
      return value;
  }
}

function wrongCount(label: string, { args }: Call, least: number, given: number): AclError {
  const wanted = least === args.length ? `${least}` : `${least} to ${args.length}`;
  const names = args.map((one) => one.name).join(", ");
  return new AclError(INVALID_PARAM, `${label}(${names}) takes ${wanted} argument${wanted === "1" ? "" : "s"}, not ${given}`);
}

/** The function that a user calls. It never throws: what is wrong, the arguments' types too, is its code and the recent message. */
function bindOne(name: string, entry: Call): (...args: unknown[]) => unknown {
  const label = name.startsWith("rt/") ? name.slice(3) : `acl.${name}`;
  const { args } = entry;
  const least = args.filter((one) => !one.optional).length;
  const bound = (...given: unknown[]): unknown => {
    let checked = false;
    try {
      if (given.length < least || given.length > args.length) {
        throw wrongCount(label, entry, least, given.length);
      }
      for (let at = 0; at < args.length; at++) {
        const arg = args[at]!;
        if (arg.takesIntegers !== true || !Number.isSafeInteger(given[at])) {
          given[at] = arg.check(given[at], label);
        }
      }
      checked = true;
      const value = entry.run(...given);
      return answer(entry, value, entry.returns === "ret" && typeof value === "number" ? value : SUCCESS);
    } catch (thrown) {
      const error = asAclError(thrown);
      if (!checked || entry.quiet !== true) {
        note(label, error);
      }
      return answer(entry, error instanceof AclFailure ? error.value : entry.none, error.code);
    }
  };
  Object.defineProperty(bound, "name", { value: name });
  return bound;
}

/** Turns entries into functions. `prefix` is "rt." and the like. */
export function bind<const F extends Family>(prefix: string, family: F): BoundFamily<F> {
  const bound: Record<string, unknown> = {};
  for (const [key, entry] of Object.entries(family)) {
    const name = prefix + key;
    rows.push({ name, call: entry as Call });
    bound[key] = bindOne(name, entry as Call);
  }
  return bound as BoundFamily<F>;
}
