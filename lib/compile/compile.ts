/**
 * The compiler's front door. `compileModel` works on the calling thread; `compileAsync` keeps the event loop free: small models are compiled where
 * they are (milliseconds, in turns with the event loop), others in a worker thread that is started with the first of them and ends with the process.
 */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { hasUserOps } from "../ops/registry";
import { pipelineSteps, resultOf } from "./pipeline";
import type { CompileOptions, CompileResult } from "./types";
import { compileInWorker } from "./worker-host";

export { compileModel, passNames } from "./pipeline";

/** Files of at most this many bytes are compiled on the calling thread: about 5 ms of work. */
const SMALL_BYTES = 256 * 1024;

export interface CompileControl {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly phase: string; readonly fraction: number }) => void;
}

/**
 * @param source the bytes of a model, which must not change until this settles, or the path of a file (its folder may then hold external data)
 * @throws AclError 100003 when the file cannot be read; otherwise what compileModel throws
 */
export async function compileAsync(
  source: Uint8Array | { readonly path: string },
  options: CompileOptions = {},
  control: CompileControl = {},
): Promise<CompileResult> {
  const { signal, onProgress } = control;
  throwIfAborted(signal);
  onProgress?.({ phase: "read", fraction: 0 });
  const [bytes, folder] =
    source instanceof Uint8Array ? [source, options.folder] : [await readModel(source.path, signal), path.dirname(path.resolve(source.path))];
  throwIfAborted(signal);
  const complete: CompileOptions = folder === undefined ? options : { ...options, folder };
  onProgress?.({ phase: "compile", fraction: 0.2 });
  // Operators that a user registered are functions of this thread: no worker has them.
  const result =
    bytes.byteLength <= SMALL_BYTES || hasUserOps() || !mayHaveThreads()
      ? await compileInTurns(bytes, complete, signal)
      : await compileInWorker(bytes, complete, signal);
  throwIfAborted(signal);
  onProgress?.({ phase: "compile", fraction: 1 });
  return result;
}

/** False under Node's permission model without --allow-worker. */
const mayHaveThreads = (): boolean => process.permission?.has("worker") ?? true;

async function readModel(file: string, signal: AbortSignal | undefined): Promise<Uint8Array> {
  try {
    return await fs.promises.readFile(file, signal ? { signal } : {});
  } catch (cause) {
    throwIfAborted(signal);
    throw new AclError(100003, `cannot read the model "${file}": ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) {
    throw aborted("the compilation", signal.reason);
  }
}

/** Longest stretch of work between two turns of the event loop, about; one piece of work may add a few milliseconds. */
const TURN_MS = 2;

async function compileInTurns(bytes: Uint8Array, options: CompileOptions, signal: AbortSignal | undefined): Promise<CompileResult> {
  const steps = pipelineSteps(bytes, options);
  for (let started = performance.now(); ; ) {
    const { done, value } = steps.next();
    if (done) {
      return resultOf(value);
    }
    if (performance.now() - started > TURN_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      throwIfAborted(signal);
      started = performance.now();
    }
  }
}
