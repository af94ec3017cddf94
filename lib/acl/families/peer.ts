/** Peer access between devices: one way, from the current device. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { integer } from "../args";
import { current } from "../contexts";
import { type AclDevice, deviceIfOpen, physicalIndex, Shared } from "../devices";
import { call } from "../table";

/** The word and bit that say whether `device` may access device `peer`. */
function place(peer: number): [Shared, number] {
  return [peer < 32 ? Shared.PEERS_LOW : Shared.PEERS_HIGH, 1 << (peer & 31)];
}

function isEnabled(device: AclDevice | undefined, peer: number): boolean {
  const [word, bit] = place(peer);
  return device !== undefined && (device.get(word) & bit) !== 0;
}

/** The current device and another one. */
function pair(id: number, what: string): [AclDevice, number] {
  const { device } = current(what);
  const peer = physicalIndex(id, what);
  if (peer === device.index) {
    throw invalidParam(`${what}: device ${id} is the current one; pass another`);
  }
  return [device, peer];
}

export const peerCalls = {
  device_can_access_peer: call({
    c: "aclrtDeviceCanAccessPeer",
    args: [integer("deviceId"), integer("peerDeviceId")],
    returns: "[value, ret]",
    doc: "1: every device of the emulator can reach every other.",
    none: 0,
    run(id, peerId) {
      const what = "device_can_access_peer";
      const [device, peer] = [physicalIndex(id, what), physicalIndex(peerId, what)];
      if (device === peer) {
        throw invalidParam(`${what}: both are device ${id}; pass two devices`);
      }
      return 1;
    },
  }),
  device_enable_peer_access: call({
    c: "aclrtDeviceEnablePeerAccess",
    args: [integer("peerDeviceId"), integer("flags")],
    returns: "ret",
    doc: "Lets the current device access the peer's memory; not the other way round.",
    run(id, flags): void {
      const what = "device_enable_peer_access";
      const [device, peer] = pair(id, what);
      if (flags !== 0) {
        throw invalidParam(`${what}: flags is ${flags}; it is reserved, pass 0`);
      }
      const [word, bit] = place(peer);
      if (Atomics.or(device.shared, word, bit) & bit) {
        throw new AclError(507899, `${what}: device ${device.index} has access to device ${peer} already; disable it before enabling it again`);
      }
    },
  }),
  device_disable_peer_access: call({
    c: "aclrtDeviceDisablePeerAccess",
    args: [integer("peerDeviceId")],
    returns: "ret",
    doc: "Takes that back.",
    run(id): void {
      const what = "device_disable_peer_access";
      const [device, peer] = pair(id, what);
      const [word, bit] = place(peer);
      if (!(Atomics.and(device.shared, word, ~bit) & bit)) {
        throw new AclError(507899, `${what}: device ${device.index} has no access to device ${peer}; enable it first`);
      }
    },
  }),
  device_peer_access_status: call({
    c: "aclrtDevicePeerAccessStatus",
    args: [integer("deviceId"), integer("peerDeviceId")],
    returns: "[value, ret]",
    doc: "1 if the device has access to the peer, else 0.",
    none: 0,
    run(id, peerId) {
      const what = "device_peer_access_status";
      const [device, peer] = [physicalIndex(id, what), physicalIndex(peerId, what)];
      if (device === peer) {
        throw invalidParam(`${what}: both are device ${id}; pass two devices`);
      }
      return isEnabled(deviceIfOpen(device), peer) ? 1 : 0;
    },
  }),
};
