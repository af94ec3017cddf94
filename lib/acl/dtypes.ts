/** aclDataType numbers that device memory can hold, as this house names them. */
import { invalidParam } from "../errors/make";
import type { DtypeName } from "../graph/dtype";

const NAMES: ReadonlyMap<number, DtypeName> = new Map([
  [0, "float32"],
  [1, "float16"],
  [2, "int8"],
  [3, "int32"],
  [4, "uint8"],
  [6, "int16"],
  [7, "uint16"],
  [8, "uint32"],
  [9, "int64"],
  [10, "uint64"],
  [11, "float64"],
  [12, "bool"],
  [27, "bfloat16"],
]);

/** @throws AclError 107000 */
export function dtypeOf(number: number, what: string): DtypeName {
  const name = NAMES.get(number);
  if (name === undefined) {
    throw invalidParam(
      `${what}: dtype ${number} is not held in device memory; known are ${[...NAMES].map(([key, value]) => `${key} (${value})`).join(", ")}`,
    );
  }
  return name;
}
