/** Callbacks that hear of state changes of devices and streams, by a unique name. */
import { invalidParam } from "../errors/make";

type StateCallback<S> = (subject: S, state: number, args: unknown) => void;

/** Numbers of the states, as the callbacks get them. */
const STATES = { SET_PRE: 0, SET_POST: 1, RESET_PRE: 2, RESET_POST: 3, CREATE_POST: 1, DESTROY_PRE: 2 } as const;

export class StateCallbacks {
  readonly #what: string;
  readonly #callbacks = new Map<string, { callback: StateCallback<number>; args: unknown }>();

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

  tell(subject: number, state: keyof typeof STATES): void {
    for (const { callback, args } of this.#callbacks.values()) {
      callback(subject, STATES[state], args);
    }
  }

  clear(): void {
    this.#callbacks.clear();
  }
}
