/** What devices are: attributes, ids, links. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { integer, text } from "../args";
import { deviceIfOpen, physicalIndex, userId } from "../devices";
import { config } from "../process";
import { call } from "../table";

const UNKNOWN_RATE = -1;
/** aclrtDevAttr. */
enum Attribute {
  AICPU_CORES = 1,
  AICORE_CORES = 101,
  CUBE_CORES = 102,
  VECTOR_CORES = 201,
  WARP_SIZE = 202,
  THREADS_PER_VECTOR_CORE = 203,
  UB_BYTES = 204,
  TOTAL_MEMORY = 301,
  L2_BYTES = 302,
  PHYSICAL_CHIP = 402,
  VIRTUAL = 501,
  ARCHITECTURE = 601,
}
/** Features of get_device_capability. */
enum Feature {
  TASK_UPDATE = 1,
  CROSS_DEVICE_EVENT = 21,
}
const TOPOLOGY_HCCS = 1;

function attribute(id: number, name: number): number {
  const physical = physicalIndex(id, "get_device_info");
  const { soc, emulator } = config();
  switch (name) {
    case Attribute.AICPU_CORES:
      return soc.aicpuCores;
    case Attribute.AICORE_CORES:
    case Attribute.CUBE_CORES:
      return soc.cubeCores;
    case Attribute.VECTOR_CORES:
      return soc.vectorCores;
    case Attribute.UB_BYTES:
      return soc.bufferBytes;
    case Attribute.TOTAL_MEMORY:
      return emulator.memory ?? soc.memoryBytes;
    case Attribute.L2_BYTES:
      return soc.l2Bytes;
    case Attribute.PHYSICAL_CHIP:
      return physical;
    case Attribute.VIRTUAL:
      return 0;
    case Attribute.ARCHITECTURE:
      return soc.architecture;
    case Attribute.WARP_SIZE:
    case Attribute.THREADS_PER_VECTOR_CORE:
      throw new AclError(207000, `get_device_info: ${soc.name} has no SIMT threads; attribute ${name} is of later chips`);
    default:
      throw invalidParam(`get_device_info: attribute ${name} is unknown; see aclrtDevAttr (1, 101, 102, 201, 204, 301, 302, 402, 501, 601)`);
  }
}

/** What get_device_utilization_rate tells; -1 = unknown. */
export interface Utilization {
  readonly cube_utilization: number;
  readonly vector_utilization: number;
  readonly aicpu_utilization: number;
  readonly memory_utilization: number;
  readonly utilization_extend: number;
}

function checkPair(a: number, b: number, what: string): [number, number] {
  return [physicalIndex(a, what), physicalIndex(b, what)];
}

export const deviceInfoCalls = {
  get_device_info: call({
    c: "aclrtGetDeviceInfo",
    args: [integer("deviceId"), integer("attribute")],
    returns: "[value, ret]",
    doc: "Cores, sizes and ids of a device by aclrtDevAttr.",
    none: 0,
    run: attribute,
  }),
  get_device_capability: call({
    c: "aclrtGetDeviceCapability",
    args: [integer("deviceId"), integer("feature")],
    returns: "[value, ret]",
    doc: "1 if the device supports task update (1) or events across devices (21).",
    none: 0,
    run(id, feature) {
      physicalIndex(id, "get_device_capability");
      if (feature !== Feature.TASK_UPDATE && feature !== Feature.CROSS_DEVICE_EVENT) {
        throw invalidParam(`get_device_capability: feature ${feature} is unknown; pass 1 or 21`);
      }
      return feature === Feature.TASK_UPDATE ? 1 : 0;
    },
  }),
  get_device_utilization_rate: call({
    c: "aclrtGetDeviceUtilizationRate",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "Percent of memory that is allocated; -1 for the cores, whose use is not sampled.",
    none: undefined,
    run(id): Utilization {
      const device = deviceIfOpen(physicalIndex(id, "get_device_utilization_rate"));
      const memory = device === undefined ? 0 : Math.round((100 * device.chargedBytes) / device.memoryBytes);
      return {
        cube_utilization: UNKNOWN_RATE,
        vector_utilization: UNKNOWN_RATE,
        aicpu_utilization: UNKNOWN_RATE,
        memory_utilization: memory,
        utilization_extend: 0,
      };
    },
  }),
  get_logic_dev_id_by_user_dev_id: call({
    c: "aclrtGetLogicDevIdByUserDevId",
    args: [integer("userDeviceId")],
    returns: "[value, ret]",
    doc: "From the id that calls take to the id among all devices.",
    none: 0,
    run: (id) => physicalIndex(id, "get_logic_dev_id_by_user_dev_id"),
  }),
  get_user_dev_id_by_logic_dev_id: call({
    c: "aclrtGetUserDevIdByLogicDevId",
    args: [integer("logicDeviceId")],
    returns: "[value, ret]",
    doc: "From the id among all devices to the id that calls take.",
    none: 0,
    run: (index) => visibleId(index, "get_user_dev_id_by_logic_dev_id"),
  }),
  get_logic_dev_id_by_phy_dev_id: call({
    c: "aclrtGetLogicDevIdByPhyDevId",
    args: [integer("physicalDeviceId")],
    returns: "[value, ret]",
    doc: "Logic and physical ids are the same on the emulator.",
    none: 0,
    run: (index) => allowedIndex(index, "get_logic_dev_id_by_phy_dev_id"),
  }),
  get_phy_dev_id_by_logic_dev_id: call({
    c: "aclrtGetPhyDevIdByLogicDevId",
    args: [integer("logicDeviceId")],
    returns: "[value, ret]",
    doc: "Logic and physical ids are the same on the emulator.",
    none: 0,
    run: (index) => allowedIndex(index, "get_phy_dev_id_by_logic_dev_id"),
  }),
  device_get_uuid: call({
    c: "aclrtDeviceGetUuid",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "16 bytes that name the device.",
    none: undefined,
    run(id): { bytes: number[] } {
      const index = physicalIndex(id, "device_get_uuid");
      return { bytes: [...Buffer.from("npurt-emulator-"), index] };
    },
  }),
  device_get_pci_bus_id: call({
    c: "aclrtDeviceGetPCIBusId",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "A bus id made from the device's number; the emulator sits on no bus.",
    none: "",
    run: (id) => `0000:${(physicalIndex(id, "device_get_pci_bus_id") + 1).toString(16).padStart(2, "0")}:00.0`,
  }),
  device_get_by_pci_bus_id: call({
    c: "aclrtDeviceGetByPCIBusId",
    args: [text("busId")],
    returns: "[value, ret]",
    doc: "The device with that bus id.",
    none: 0,
    run(bus) {
      const match = /^0000:([0-9a-f]{2}):00\.0$/i.exec(bus);
      return visibleId(match === null ? -1 : Number.parseInt(match[1] as string, 16) - 1, "device_get_by_pci_bus_id");
    },
  }),
  get_devices_topo: call({
    c: "aclrtGetDevicesTopo",
    args: [integer("deviceId"), integer("otherDeviceId")],
    returns: "[value, ret]",
    doc: "How two devices are linked: HCCS (1), as they share the process's memory bus.",
    none: 0,
    run(a, b) {
      const [one, other] = checkPair(a, b, "get_devices_topo");
      if (one === other) {
        throw invalidParam(`get_devices_topo: both are device ${a}; pass two devices`);
      }
      return TOPOLOGY_HCCS;
    },
  }),
};

function visibleId(index: number, what: string): number {
  const id = userId(index);
  if (id < 0) {
    throw new AclError(107001, `${what}: device ${index} does not exist or is hidden by ASCEND_RT_VISIBLE_DEVICES`);
  }
  return id;
}

function allowedIndex(index: number, what: string): number {
  if (index < 0 || index >= config().devices) {
    throw new AclError(107001, `${what}: device ${index} does not exist; pass 0 to ${config().devices - 1}`);
  }
  return index;
}
