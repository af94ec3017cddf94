/** External tensor data: bytes from files beside the model. Nothing outside the model's folder is ever opened, whatever the model says. */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../../errors/acl-error";
import type { TensorProto } from "./generated/messages";

/** @throws AclError 100003 when the place is refused or missing, 100012 when offset or length leave the file */
export function readExternal(proto: TensorProto, folder: string | undefined, expectedBytes: number): Uint8Array {
  const fields = new Map(proto.externalData.map(({ key, value }) => [key, value]));
  const location = fields.get("location") ?? "";
  const what = `external data "${location}" of tensor "${proto.name}"`;
  if (folder === undefined) {
    throw new AclError(100003, `${what}: the model was given as bytes, so there is no folder to read from; load it by path or pass \`folder\``);
  }
  const file = insideFolder(folder, location, what);
  const fd = fs.openSync(file, "r");
  try {
    const { size } = fs.fstatSync(fd);
    const offset = field(fields.get("offset"), 0, `${what}: offset`);
    const length = field(fields.get("length"), expectedBytes, `${what}: length`);
    if (length !== expectedBytes) {
      throw new AclError(100012, `${what} has ${length} bytes, its shape needs ${expectedBytes}`);
    }
    if (offset + length > size) {
      throw new AclError(100012, `${what}: bytes ${offset}..${offset + length} leave the file of ${size} bytes; fetch the complete file`);
    }
    const bytes = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      const got = fs.readSync(fd, bytes, done, length - done, offset + done);
      if (got === 0) {
        throw new AclError(100012, `${what}: the file ended ${length - done} bytes early`);
      }
      done += got;
    }
    return bytes;
  } finally {
    fs.closeSync(fd);
  }
}

/** The real path of `location`; symbolic links are followed before the folder is compared, so a link cannot lead out. */
function insideFolder(folder: string, location: string, what: string): string {
  const refused = (why: string): AclError =>
    new AclError(100003, `${what}: ${why}; external data must be a plain relative path inside the folder of the model`);
  if (location === "" || location.includes("\0")) {
    throw refused("it names no file");
  }
  if (path.isAbsolute(location) || path.win32.isAbsolute(location) || location.split(/[\\/]/).includes("..")) {
    throw refused("the path leads out of the folder");
  }
  let root: string;
  let file: string;
  try {
    root = fs.realpathSync(folder);
    file = fs.realpathSync(path.join(root, location));
  } catch (cause) {
    throw new AclError(100003, `${what}: no such file in ${folder}`, { cause });
  }
  if (!file.startsWith(root + path.sep)) {
    throw refused("a symbolic link leads out of the folder");
  }
  if (!fs.statSync(file).isFile()) {
    throw refused("it is not a regular file");
  }
  return file;
}

function field(text: string | undefined, otherwise: number, what: string): number {
  if (text === undefined) {
    return otherwise;
  }
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new AclError(100012, `${what} is ${JSON.stringify(text)}, not a whole number of bytes`);
  }
  return value;
}
