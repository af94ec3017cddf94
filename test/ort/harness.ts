/** Models small enough to know their results by heart, and the error that a call ends with. */
import { AclError } from "npurt";
import { model } from "../ops/models";

/** sum = a + b, difference = a - b, of float32[n, 2]. */
export const sums = (): Uint8Array =>
  model({
    inputs: [
      { name: "a", dtype: "float32", dims: ["n", 2] },
      { name: "b", dtype: "float32", dims: ["n", 2] },
    ],
    nodes: [
      { op: "Add", inputs: ["a", "b"], outputs: ["sum"] },
      { op: "Sub", inputs: ["a", "b"], outputs: ["difference"] },
    ],
    outputs: [
      { name: "sum", dtype: "float32", dims: ["n", 2] },
      { name: "difference", dtype: "float32", dims: ["n", 2] },
    ],
  });

export async function codeOf(work: Promise<unknown>): Promise<number> {
  try {
    await work;
  } catch (error) {
    if (error instanceof AclError) return error.code;
    throw error;
  }
  throw new Error("expected an AclError");
}
