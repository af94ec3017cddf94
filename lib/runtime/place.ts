import type { Machine } from "../host/machine";

/** Memory of a device that was checked by who made this. `host`: pinned host memory, which lies in the device's memory all the same. */
export class Place {
  constructor(
    readonly machine: Machine,
    readonly offset: number,
    readonly host: boolean,
  ) {}
}
