/** Reads parts of files straight into device memory, off-thread: no copy through a Buffer, no wait on the event loop. */
import fs from "node:fs";
import { getSystemErrorName } from "node:util";
import { loadAddon } from "./addon";

/**
 * Fills `target` (a view, also of shared memory) from byte `position` of an open file. The descriptor must stay open until then.
 * @returns the bytes read; fewer than asked only at the end of the file
 * @throws a system error with `code` and `errno`, as node:fs does
 */
export async function readInto(fd: number, target: Uint8Array, position: number): Promise<number> {
  const addon = loadAddon();
  if (addon === undefined) return readWithNode(fd, target, position);
  const result = await addon.readInto(fd, target, position);
  if (result >= 0) return result;
  const code = getSystemErrorName(result);
  throw Object.assign(new Error(`${code}: cannot read ${target.length} bytes at ${position}`), { code, errno: result, syscall: "read" });
}

/** fs.read runs on the same pool and takes views of shared memory; it may stop short, so it is asked again. */
async function readWithNode(fd: number, target: Uint8Array, position: number): Promise<number> {
  let done = 0;
  while (done < target.length) {
    const length = Math.min(target.length - done, 1 << 30);
    const got = await new Promise<number>((resolve, reject) => {
      fs.read(fd, target, done, length, position + done, (error, bytes) => (error ? reject(error) : resolve(bytes)));
    });
    if (got === 0) break;
    done += got;
  }
  return done;
}
