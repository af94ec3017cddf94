/** The compiler's thread: takes requests one by one, answers with buffers that it gives away. */
import { parentPort } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { compileModel } from "./pipeline";
import type { CompileResult } from "./types";
import type { PlainError, Reply, Request } from "./worker-host";

parentPort?.on("message", ({ id, bytes, options }: Request) => {
  try {
    const { result, transfer } = detachable(compileModel(bytes, options));
    parentPort?.postMessage({ id, result } satisfies Reply, transfer);
  } catch (error) {
    parentPort?.postMessage({ id, error: plain(error) } satisfies Reply);
  }
});

/** The result with every array in a buffer of its own; views of the model's shared memory are copied. */
function detachable(result: CompileResult): { result: CompileResult; transfer: ArrayBuffer[] } {
  const transfer: ArrayBuffer[] = [];
  const own = (bytes: Uint8Array): Uint8Array => {
    const whole = bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength && !transfer.includes(bytes.buffer);
    const mine = whole ? bytes : new Uint8Array(bytes);
    transfer.push(mine.buffer as ArrayBuffer);
    return mine;
  };
  const data = result.data.map((segment) => ({ ...segment, bytes: own(segment.bytes) }));
  return { result: { ...result, data, program: { ...result.program, image: own(result.program.image) } }, transfer };
}

function plain(error: unknown): PlainError {
  if (error instanceof AclError) {
    const { code, message, reason, solution, failures, node } = error;
    return { code, message, details: { reason, solution, failures: [...failures], ...(node === undefined ? {} : { node }) } };
  }
  return { code: undefined, message: error instanceof Error ? error.message : String(error), details: {} };
}
