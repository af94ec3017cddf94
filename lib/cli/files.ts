/** Files that commands are given. */
import fs from "node:fs";
import { AclError } from "../errors/acl-error";

/** Pipes and devices are refused, as by `Executor.load`: to open one may take for ever. @throws AclError 100003 naming `what` */
export function readGiven(file: string, what: string): Uint8Array {
  try {
    const stats = fs.statSync(file); // before it is opened, which waits for the other end of a pipe
    if (!stats.isFile()) throw new Error(`it is ${stats.isDirectory() ? "a directory" : "no regular file"}; pass the path of a file`);
    return fs.readFileSync(file);
  } catch (cause) {
    throw new AclError(100003, `${what} ${file} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
