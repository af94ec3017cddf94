/** Uncorrectable memory errors: injected by a test, reported, repaired. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { resolve } from "../addresses";
import { dict, integer, list } from "../args";
import { badRanges, repair, spoil } from "../bad-memory";
import type { BadRange } from "../shapes";
import { type AclDevice, deviceIfOpen, physicalIndex } from "../devices";
import { placeOf } from "../../runtime/address";
import { call } from "../table";

function deviceAt(id: number, what: string): AclDevice {
  const device = deviceIfOpen(physicalIndex(id, what));
  if (device === undefined) {
    throw new AclError(107002, `${what}: device ${id} is not in use; call set_device first`);
  }
  return device;
}

export const uceCalls = {
  inject_mem_uce: call({
    c: "npurt inject_mem_uce",
    args: [integer("ptr"), integer("size")],
    returns: "ret",
    doc: "Makes a range of device memory bad: calls that touch it give 507053 until it is repaired. For tests of programs that recover.",
    run(ptr, size): void {
      const what = "inject_mem_uce";
      const { device, offset } = resolve(ptr, size, `${what}: ptr`);
      if (device === undefined || size < 1) {
        throw invalidParam(`${what}: ${size} bytes at ${ptr}; pass a range of device memory`);
      }
      spoil(device, offset, size, what);
    },
  }),
  get_mem_uce_info: call({
    c: "aclrtGetMemUceInfo",
    args: [integer("deviceId"), integer("capacity")],
    returns: "[value, ret]",
    doc: "Ranges {addr, len} of device memory with uncorrectable errors; 107039 if they are more than `capacity`.",
    none: [],
    run(id, capacity) {
      const found = badRanges(deviceAt(id, "get_mem_uce_info"));
      if (found.length > capacity) {
        throw new AclError(107039, `get_mem_uce_info: ${found.length} ranges do not fit ${capacity}; pass at least ${found.length}`);
      }
      return found;
    },
  }),
  mem_uce_repair: call({
    c: "aclrtMemUceRepair",
    args: [integer("deviceId"), list("memUceInfo", (name) => dict<Partial<BadRange>>(name))],
    returns: "ret",
    doc: "Repairs ranges that get_mem_uce_info told of. What was there is lost: the bytes are 0.",
    run(id, infos): void {
      const what = "mem_uce_repair";
      const device = deviceAt(id, what);
      const bad = badRanges(device);
      for (const { addr, len } of infos) {
        if (!bad.some((one) => one.addr === addr && one.len === len)) {
          throw invalidParam(
            `${what}: {addr: ${String(addr)}, len: ${String(len)}} is no bad range of device ${id}; pass what get_mem_uce_info told`,
          );
        }
      }
      for (const { addr, len } of infos) {
        repair(device, placeOf(addr as number)?.offset ?? 0, len as number);
      }
    },
  }),
  repair_error: call({
    c: "aclrtRepairError",
    args: [integer("deviceId")],
    returns: "ret",
    doc: "Repairs what get_error_verbose says may be repaired: bad memory of the device. 207000 if there is none.",
    run(id): void {
      const device = deviceIfOpen(physicalIndex(id, "repair_error"));
      if (device === undefined || repair(device, 0, device.machine.bytes.length) === 0) {
        throw new AclError(207000, `repair_error: device ${id} has no repairable error; reset the device or the context instead`);
      }
    },
  }),
};
