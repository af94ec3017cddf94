/** The bytes of a model that is to be loaded: of a file, or the caller's. */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import { invalidParam, kindOf } from "../errors/make";

export interface ModelSource {
  /** In shared memory, so that the compiler's thread reads them where they are. */
  readonly bytes: Uint8Array;
  /** Folder that external data may come from. */
  readonly folder: string | undefined;
  readonly name: string;
}

const shared = (length: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(length));

/** @throws AclError 100003 if the file cannot be read, 107000 for what is no model */
export async function readModel(model: string | Uint8Array, folder: string | undefined): Promise<ModelSource> {
  if (typeof model === "string") {
    const file = path.resolve(model);
    try {
      return { bytes: await readFile(file), folder: folder ?? path.dirname(file), name: path.basename(file) };
    } catch (error) {
      throw new AclError(100003, `the model ${file} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }
  if (!ArrayBuffer.isView(model)) {
    throw invalidParam(`Executor.load: pass the path of a model or its bytes (Uint8Array), not ${kindOf(model)}`);
  }
  return { bytes: await bytesOf(model), folder: folder === undefined ? undefined : path.resolve(folder), name: "model" };
}

/** A callback of node:fs as a promise: node:fs/promises takes a millisecond to load. */
const settled = <T>(begin: (done: (error: Error | null, value: T) => void) => void): Promise<T> =>
  new Promise((resolve, reject) => begin((error, value) => (error ? reject(error) : resolve(value))));

/** What one call may read. */
const READ_BYTES = 1 << 30;

async function readFile(file: string): Promise<Uint8Array> {
  const handle = await settled<number>((done) => fs.open(file, done));
  try {
    const stats = await settled<fs.Stats>((done) => fs.fstat(handle, done));
    if (!stats.isFile()) {
      // A pipe has no size; a folder has no bytes, which reading it says.
      return await bytesOf(await settled<Uint8Array>((done) => fs.readFile(handle, done)));
    }
    const bytes = shared(stats.size);
    for (let at = 0; at < bytes.length; ) {
      const count = await settled<number>((done) => fs.read(handle, bytes, at, Math.min(READ_BYTES, bytes.length - at), at, done));
      if (count === 0) {
        return bytes.subarray(0, at); // it shrank meanwhile
      }
      at += count;
    }
    return bytes;
  } finally {
    fs.close(handle, () => {});
  }
}

/** Bytes that are copied between two turns of the event loop: up to 2 ms, where every page is touched for the first time. */
const COPY_PIECE = 1 << 20;

/** A copy: shapes that come later are compiled from it. Models of up to 1 MiB are taken at the call, larger ones while the load is pending. */
async function bytesOf(model: ArrayBufferView): Promise<Uint8Array> {
  try {
    const copy = shared(model.byteLength);
    for (let at = 0; at < copy.length; at += COPY_PIECE) {
      if (at > 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      copy.set(new Uint8Array(model.buffer, model.byteOffset + at, Math.min(COPY_PIECE, copy.length - at)), at);
    }
    return copy;
  } catch (error) {
    throw invalidParam("Executor.load: the buffer of the model was transferred or shrunk while it was read; keep it until the load is done", {
      cause: error,
    });
  }
}
