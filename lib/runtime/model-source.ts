/** The bytes of a model that is to be loaded: of a file, or the caller's. */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import { invalidParam, kindOf } from "../errors/make";

/** As that of node:fs/promises, which takes a millisecond to load. */
const readFile = (file: string): Promise<Uint8Array> =>
  new Promise((resolve, reject) => fs.readFile(file, (error, bytes) => (error ? reject(error) : resolve(bytes))));

/** @throws AclError 100003 if the file cannot be read, 107000 for what is no model */
export async function readModel(
  model: string | Uint8Array,
  folder: string | undefined,
): Promise<{ bytes: Uint8Array; folder: string | undefined; name: string }> {
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

/** Bytes that are copied between two turns of the event loop: up to 2 ms, where every page is touched for the first time. */
const COPY_PIECE = 1 << 20;

/** A copy: shapes that come later are compiled from it. Models of up to 1 MiB are taken at the call, larger ones while the load is pending. */
async function bytesOf(model: ArrayBufferView): Promise<Uint8Array> {
  try {
    const copy = new Uint8Array(model.byteLength);
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
