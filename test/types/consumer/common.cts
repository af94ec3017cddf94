import npurt = require("npurt");

export const names: readonly string[] = Object.keys(npurt);
