/**
 * The context that calls work in which are given none: that of the innermost `context.run` around them, across awaits.
 * Explicit handles always win, and the parity face binds per thread instead: it never looks here.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import type { Context } from "./context";
import type { ContextCore } from "./context-core";
import type { DeviceCore } from "./device-core";
import { coreOf } from "./internals";

/** Undefined until the first `context.run`: whoever never calls it pays nothing. */
let storage: AsyncLocalStorage<Context> | undefined;

export function runInside<T>(context: Context, body: () => T): T {
  if (storage === undefined) {
    const { AsyncLocalStorage: Storage } = require("node:async_hooks") as typeof import("node:async_hooks");
    storage = new Storage();
  }
  return storage.run(context, body);
}

export function currentContext(): Context | undefined {
  return storage?.getStore();
}

/** The current context if it belongs to `device`. */
export function currentOn(device: DeviceCore): ContextCore | undefined {
  const context = storage?.getStore();
  const core = context === undefined ? undefined : coreOf.context(context);
  return core?.device === device ? core : undefined;
}
