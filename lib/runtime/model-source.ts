/** The bytes of a model that is to be loaded: of a file, or the caller's. */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { AclError } from "../errors/acl-error";
import { invalidParam, kindOf } from "../errors/make";
import { turn } from "./turn";

export interface ModelSource {
  /** In shared memory, so that the compiler's thread reads them where they are. */
  readonly bytes: Uint8Array;
  /** Folder that external data may come from. */
  readonly folder: string | undefined;
  readonly name: string;
}

const shared = (length: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(length));

/** @throws AclError 100003 if the file cannot be read, 107000 for what is no model */
export async function readModel(model: string | URL | Uint8Array, folder?: string): Promise<ModelSource> {
  if (typeof model === "string" || model instanceof URL) {
    const file = pathOf(model);
    try {
      return { bytes: await readFile(file), folder: folder ?? path.dirname(file), name: path.basename(file) };
    } catch (error) {
      throw new AclError(100003, `the model ${file} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }
  if (!ArrayBuffer.isView(model)) {
    throw invalidParam(`Executor.load: pass the path of a model or a file URL, or its bytes (Uint8Array), not ${kindOf(model)}`);
  }
  return { bytes: await bytesOf(model), folder: folder === undefined ? undefined : path.resolve(folder), name: "model" };
}

function pathOf(model: string | URL): string {
  if (model === "") {
    throw new AclError(100003, "the path of the model is empty");
  }
  if (typeof model === "string" && !/^[a-z]{2,}:\/\//i.test(model)) {
    return path.resolve(model);
  }
  try {
    return fileURLToPath(model);
  } catch (error) {
    throw new AclError(100003, `the model ${String(model)} cannot be read: ${(error as Error).message}; download it first`, { cause: error });
  }
}

/** A callback of node:fs as a promise: node:fs/promises takes a millisecond to load. */
const settled = <T>(begin: (done: (error: Error | null, value: T) => void) => void): Promise<T> =>
  new Promise((resolve, reject) => begin((error, value) => (error ? reject(error) : resolve(value))));

/** What one call may read. */
const READ_BYTES = 1 << 30;

/** Pipes and devices are refused: to read one may take for ever, and a pipe that nobody writes keeps the process from its end. */
export async function readFile(file: string): Promise<Uint8Array> {
  const stats = await settled<fs.Stats>((done) => fs.stat(file, done)); // before it is opened, which waits for the other end of a pipe
  if (!stats.isFile()) {
    throw new Error(`it is ${stats.isDirectory() ? "a directory" : "no regular file"}; pass the path of a file`);
  }
  const handle = await settled<number>((done) => fs.open(file, done));
  try {
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
        await turn();
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
