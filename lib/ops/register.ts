/** `registerOp` as users call it: the operators themselves are loaded only then, or with the first model. */
import type { AnyOp } from "./define";

/**
 * Adds an operator (made with `defineOp`), or replaces a built-in one, for every model that this thread loads from now on.
 * Models are then compiled on the calling thread, in turns with the event loop: the functions of an operator cannot go to another thread.
 * @throws AclError 100000 when the definition lacks a part
 */
export function registerOp(op: AnyOp): void {
  const registry = require("./registry") as { registerOp(op: AnyOp): void };
  registry.registerOp(op);
}
