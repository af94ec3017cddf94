/** Memory shared by key between the threads of a process, and registered host memory. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { handle, integer, list, pointer, text } from "../args";
import { current } from "../contexts";
import { physicalIndex } from "../devices";
import { allowKey, allowPhysical, checkKey, closeKey, exportKey, exportPhysical, importKey, importPhysical, KEY_BYTES } from "../keys";
import { register, registeredAddress, unregister } from "../registered";
import { call } from "../table";

const FABRIC = 2;

function checkFlags(flags: number, what: string): void {
  if (flags !== 0 && flags !== 1) {
    throw invalidParam(`${what}: flags is ${flags}; pass 0, or 1 (no white list)`);
  }
}

function checkShareType(type: number, what: string): void {
  if (type === FABRIC) {
    throw new AclError(207000, `${what}: shareType 2 (fabric) goes between servers; the emulated devices are of one process, pass 1`);
  }
  if (type !== 1) {
    throw invalidParam(`${what}: shareType is ${type}; pass 1 (default)`);
  }
}

/** What the three calls that set a white list have in common. */
const WHITE_LIST = { returns: "ret", doc: "White list of processes. This process is the only one that can import." } as const;
/** Calls that give a handle or an address. */
const GIVES = { returns: "[value, ret]", none: 0 } as const;

function exported(physical: number, flags: number, what: string): number {
  checkFlags(flags, what);
  return exportPhysical(physical, flags);
}

export const shareCalls = {
  ipc_mem_get_export_key: call({
    c: "aclrtIpcMemGetExportKey",
    args: [integer("devPtr"), integer("size"), integer("len"), integer("flags")],
    returns: "[value, ret]",
    doc: "A key by which other threads of the process get the memory. Flag 1: everybody may, without ipc_mem_set_import_pid.",
    none: "",
    run(address, size, length, flags) {
      const what = "ipc_mem_get_export_key";
      current(what);
      checkFlags(flags, what);
      if (length < KEY_BYTES) {
        throw invalidParam(`${what}: len is ${length}; a key has ${KEY_BYTES} bytes`);
      }
      return exportKey(address, size, flags);
    },
  }),
  ipc_mem_set_import_pid: call({
    c: "aclrtIpcMemSetImportPid",
    args: [text("key"), list("pids", integer)],
    ...WHITE_LIST,
    run: (key, pids): void => allowKey(key, pids),
  }),
  ipc_mem_import_by_key: call({
    c: "aclrtIpcMemImportByKey",
    args: [text("key"), integer("flags")],
    ...GIVES,
    doc: "Address of the memory, the same in every thread. A key of another process gives 207000.",
    run(key, flags) {
      const what = "ipc_mem_import_by_key";
      current(what);
      checkFlags(flags, what);
      return importKey(key);
    },
  }),
  ipc_mem_close: call({
    c: "aclrtIpcMemClose",
    args: [text("key")],
    returns: "ret",
    doc: "Importers close before the memory is freed; the exporter's close ends the key.",
    run: (key): void => closeKey(key),
  }),
  mem_export_to_shareable_handle: call({
    c: "aclrtMemExportToShareableHandle",
    args: [handle("handle"), integer("handleType"), integer("flags")],
    ...GIVES,
    doc: "A number by which other threads of the process import physical memory. Flag 1: everybody may, without a white list.",
    run(physical, type, flags) {
      const what = "mem_export_to_shareable_handle";
      if (type !== 0) {
        throw invalidParam(`${what}: handleType is ${type}; pass 0 (none)`);
      }
      return exported(physical, flags, what);
    },
  }),
  mem_set_pid_to_shareable_handle: call({
    c: "aclrtMemSetPidToShareableHandle",
    args: [integer("shareableHandle"), list("pids", integer)],
    ...WHITE_LIST,
    run: (shareable, pids): void => allowPhysical(shareable, pids),
  }),
  mem_import_from_shareable_handle: call({
    c: "aclrtMemImportFromShareableHandle",
    args: [integer("shareableHandle"), integer("deviceId")],
    ...GIVES,
    doc: "A handle of the memory, to be mapped and freed. A number of another process gives 207000.",
    run(shareable, id) {
      current("mem_import_from_shareable_handle");
      return importPhysical(shareable, physicalIndex(id, "mem_import_from_shareable_handle"));
    },
  }),
  mem_export_to_shareable_handle_v2: call({
    c: "aclrtMemExportToShareableHandleV2",
    args: [handle("handle"), integer("flags"), integer("shareType")],
    ...GIVES,
    doc: "The same with a type: 1 (default). Type 2 (fabric) goes between servers and gives 207000.",
    run(physical, flags, type) {
      const what = "mem_export_to_shareable_handle_v2";
      checkShareType(type, what);
      return exported(physical, flags, what);
    },
  }),
  mem_set_pid_to_shareable_handle_v2: call({
    c: "aclrtMemSetPidToShareableHandleV2",
    args: [integer("shareableHandle"), integer("shareType"), list("pids", integer)],
    ...WHITE_LIST,
    run(shareable, type, pids): void {
      checkShareType(type, "mem_set_pid_to_shareable_handle_v2");
      allowPhysical(shareable, pids);
    },
  }),
  mem_import_from_shareable_handle_v2: call({
    c: "aclrtMemImportFromShareableHandleV2",
    args: [integer("shareableHandle"), integer("shareType"), integer("flags")],
    ...GIVES,
    doc: "A handle of the memory on the current device, to be mapped and freed. flags is reserved (0).",
    run(shareable, type, flags) {
      const what = "mem_import_from_shareable_handle_v2";
      checkShareType(type, what);
      if (flags !== 0) {
        throw invalidParam(`${what}: flags is ${flags}; it is reserved, pass 0`);
      }
      return importPhysical(shareable, current(what).device.index);
    },
  }),
  ipc_mem_set_attr: call({
    c: "aclrtIpcMemSetAttr",
    args: [text("key"), integer("type"), integer("attr")],
    returns: "ret",
    doc: "Type 0, the link that imports use: attr 1 (HCCS) is the link there is; 0 (SIO) gives 207021.",
    run(key, type, attr): void {
      const what = "ipc_mem_set_attr";
      checkKey(key, what);
      if (type !== 0 || (attr !== 0 && attr !== 1)) {
        throw invalidParam(`${what}: type is ${type} and attr ${attr}; pass type 0 (link) with attr 1 (HCCS)`);
      }
      if (attr === 0) {
        throw new AclError(207021, `${what}: there is no SIO link; emulated devices are linked as by HCCS, pass 1`);
      }
    },
  }),
  host_register: call({
    c: "aclrtHostRegister",
    args: [pointer("ptr"), integer("size"), integer("type")],
    ...GIVES,
    doc: "A device address of pinned host memory: the same bytes, no copy. A JavaScript buffer gives 207000: its memory is not the device's.",
    run(ptr, size, type) {
      const what = "host_register";
      const { device } = current(what);
      if (type !== 0) {
        throw invalidParam(`${what}: type is ${type}; pass 0 (mapped)`);
      }
      return register(device, ptr, size, what);
    },
  }),
  host_register_v2: call({
    c: "aclrtHostRegisterV2",
    args: [pointer("ptr"), integer("size"), integer("flag")],
    returns: "ret",
    doc: "The same; flags mapped 2, read-only 8 and pinned 0x10000000. host_get_device_pointer tells the address.",
    run(ptr, size, flag): void {
      const what = "host_register_v2";
      const { device } = current(what);
      const [MAPPED, IO_MEMORY, READ_ONLY, PINNED] = [2, 4, 8, 0x1000_0000];
      if (flag & IO_MEMORY) {
        throw new AclError(207000, `${what}: flag 4 (I/O memory) is not there: the emulator maps no registers of other devices`);
      }
      if (flag === 0 || (flag & ~(MAPPED | READ_ONLY | PINNED)) !== 0) {
        throw invalidParam(`${what}: flag is 0x${flag.toString(16)}; pass 2 (mapped), 8 (read-only) and 0x10000000 (pinned), or-ed`);
      }
      register(device, ptr, size, what);
    },
  }),
  host_unregister: call({
    c: "aclrtHostUnregister",
    args: [pointer("ptr")],
    returns: "ret",
    doc: "Ends the registration that starts there.",
    run: (ptr): void => unregister(ptr),
  }),
  host_get_device_pointer: call({
    c: "aclrtHostGetDevicePointer",
    args: [pointer("ptr"), integer("flag")],
    ...GIVES,
    doc: "Device address of registered host memory.",
    run(ptr, flag) {
      if (flag !== 0) {
        throw invalidParam(`host_get_device_pointer: flag is ${flag}; it is reserved, pass 0`);
      }
      return registeredAddress(ptr);
    },
  }),
};
