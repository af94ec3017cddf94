import * as npurt from "npurt";

export const names: readonly string[] = Object.keys(npurt);
