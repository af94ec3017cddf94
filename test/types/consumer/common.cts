/** What a CommonJS module of a user writes; compiled, never run. */
import npurt = require("npurt");

export const names: readonly string[] = Object.keys(npurt);
export const open = (): Promise<npurt.Device> => npurt.Device.open({ driver: "inline" });
