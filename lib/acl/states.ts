/** Callbacks that hear of state changes of devices and streams, by a unique name. */
import { invalidParam } from "../errors/make";
import { asAclError } from "./last-error";

type StateCallback<S> = (subject: S, state: number, args: unknown) => void;

/** Numbers of the states, as the callbacks get them. */
const STATES = { SET_PRE: 0, SET_POST: 1, RESET_PRE: 2, RESET_POST: 3, CREATE_POST: 1, DESTROY_PRE: 2 } as const;

/** Calls a function of the user that only hears of a change. What it throws cannot stop the change, so it becomes a warning. */
export function callUser(what: string, body: () => unknown): void {
  try {
    body();
  } catch (error) {
    const known = asAclError(error);
    const text = known.cause instanceof Error ? known.cause.stack : known.message;
    process.emitWarning(`${what} threw: ${text}`, { code: "NPURT_CALLBACK" });
  }
}

export class StateCallbacks {
  readonly #what: string;
  readonly #callbacks = new Map<string, { callback: StateCallback<number>; args: unknown }>();
  #telling = false;

  constructor(what: string) {
    this.#what = what;
  }

  /** @throws AclError 107000 if the name is taken, or unknown when `callback` is null */
  register(name: string, callback: StateCallback<number> | null, args: unknown): void {
    const known = this.#callbacks.has(name);
    if (callback === null) {
      if (!known) {
        throw invalidParam(`${this.#what}: nothing is registered as "${name}"; pass the name it was registered with`);
      }
      this.#callbacks.delete(name);
      return;
    }
    if (name === "" || known) {
      throw invalidParam(`${this.#what}: ${name === "" ? "the name is empty" : `"${name}" is registered already`}; pass a name of its own`);
    }
    this.#callbacks.set(name, { callback, args });
  }

  /** What a callback itself changes is not told: it would be told of that for ever. */
  tell(subject: number, state: keyof typeof STATES): void {
    if (this.#telling) {
      return;
    }
    this.#telling = true;
    try {
      for (const [name, { callback, args }] of [...this.#callbacks]) {
        callUser(`${this.#what}: callback "${name}"`, () => callback(subject, STATES[state], args));
      }
    } finally {
      this.#telling = false;
    }
  }

  clear(): void {
    this.#callbacks.clear();
  }
}
