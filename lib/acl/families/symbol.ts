/** Variables of kernel binaries: what a module exports of its static data. A symbol is named by its binary and its name, for want of C's `extern`. */
import { deviceAddress } from "../../runtime/address";
import { handle, integer, pointer, type Pointer, text } from "../args";
import { copyAsync, copySync } from "../copies";
import { current } from "../contexts";
import { binaryAt } from "../kernels";
import { type AclStream, ownStream } from "../streams";
import { call } from "../table";
import { AclError } from "../../errors/acl-error";

interface Symbol {
  readonly address: number;
  readonly sizeBytes: number;
}

/** @throws AclError 107042 if the binary exports no such variable */
function symbolOf(binary: number, name: string, what: string): Symbol {
  current(what);
  const { core, device } = binaryAt(binary, what);
  const { offset, sizeBytes } = core.symbol(name);
  return { address: deviceAddress(device.index, offset), sizeBytes };
}

/** `count` bytes from `offset` on. @throws AclError 107043 if the symbol is shorter */
function partOf(binary: number, name: string, count: number, offset: number, what: string): Symbol {
  const { address, sizeBytes } = symbolOf(binary, name, what);
  if (count < 0 || offset < 0 || offset + count > sizeBytes) {
    throw new AclError(107043, `${what}: ${count} bytes from ${offset} on, and "${name}" has ${sizeBytes}; pass what fits`);
  }
  return { address: address + offset, sizeBytes: sizeBytes - offset };
}

const [TO_DEVICE, TO_HOST] = [1, 2];
type Kind = typeof TO_DEVICE | typeof TO_HOST;

function copy(at: Symbol, other: Pointer, most: number, count: number, kind: number, way: Kind, stream: AclStream | undefined, what: string): void {
  const [target, room, source] = way === TO_DEVICE ? [at.address, at.sizeBytes, other] : [other, most, at.address];
  if (stream === undefined) {
    copySync(target, room, source, count, kind, what);
  } else {
    copyAsync(target, room, source, count, kind, stream, what);
  }
}

const SYMBOL = [handle("binary"), text("name")] as const;
const REST = [integer("count"), integer("offset"), integer("kind")] as const;

export const symbolCalls = {
  get_symbol_address: call({
    c: "aclrtGetSymbolAddress",
    args: SYMBOL,
    returns: "[value, ret]",
    doc: "Device address of an exported variable of a binary; 107042 if there is none.",
    none: 0,
    run: (binary, name) => symbolOf(binary, name, "get_symbol_address").address,
  }),
  get_symbol_size: call({
    c: "aclrtGetSymbolSize",
    args: SYMBOL,
    returns: "[value, ret]",
    doc: "Bytes up to the next exported variable or the end of the static data: a module does not say more.",
    none: 0,
    run: (binary, name) => symbolOf(binary, name, "get_symbol_size").sizeBytes,
  }),
  binary_get_global: call({
    c: "aclrtBinaryGetGlobal",
    args: SYMBOL,
    returns: "[...values, ret]",
    doc: "Device address and size of an exported variable, as the two calls above.",
    none: [0, 0],
    run(binary, name) {
      const { address, sizeBytes } = symbolOf(binary, name, "binary_get_global");
      return [address, sizeBytes];
    },
  }),
  memcpy_to_symbol: call({
    c: "aclrtMemcpyToSymbol",
    args: [...SYMBOL, pointer("src"), ...REST],
    returns: "ret",
    doc: "Copies into an exported variable now, from `offset` on; 107043 beyond its end.",
    blocks: true,
    run(binary, name, source, count, offset, kind): void {
      copy(partOf(binary, name, count, offset, "memcpy_to_symbol"), source, 0, count, kind, TO_DEVICE, undefined, "memcpy_to_symbol");
    },
  }),
  memcpy_from_symbol: call({
    c: "aclrtMemcpyFromSymbol",
    args: [pointer("dst"), integer("destMax"), ...SYMBOL, ...REST],
    returns: "ret",
    doc: "Copies out of an exported variable now.",
    blocks: true,
    run(target, most, binary, name, count, offset, kind): void {
      copy(partOf(binary, name, count, offset, "memcpy_from_symbol"), target, most, count, kind, TO_HOST, undefined, "memcpy_from_symbol");
    },
  }),
  memcpy_to_symbol_async: call({
    c: "aclrtMemcpyToSymbolAsync",
    args: [...SYMBOL, pointer("src"), ...REST, handle("stream")],
    returns: "ret",
    doc: "The same in stream order.",
    run(binary, name, source, count, offset, kind, stream): void {
      const what = "memcpy_to_symbol_async";
      copy(partOf(binary, name, count, offset, what), source, 0, count, kind, TO_DEVICE, ownStream(stream, what), what);
    },
  }),
  memcpy_from_symbol_async: call({
    c: "aclrtMemcpyFromSymbolAsync",
    args: [pointer("dst"), integer("destMax"), ...SYMBOL, ...REST, handle("stream")],
    returns: "ret",
    doc: "The same in stream order.",
    run(target, most, binary, name, count, offset, kind, stream): void {
      const what = "memcpy_from_symbol_async";
      copy(partOf(binary, name, count, offset, what), target, most, count, kind, TO_HOST, ownStream(stream, what), what);
    },
  }),
};
