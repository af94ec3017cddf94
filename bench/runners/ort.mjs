/**
 * onnxruntime-web (WebAssembly) or onnxruntime-node (native), as the first argument says, in a process of its own.
 * A third argument `preallocated`: outputs are given. (onnxruntime-web takes them and leaves them unwritten, so it is not asked.)
 */
import { requirePeer } from "../peers.mjs";
import { serve } from "./serve.mjs";
import { openSession } from "./session.mjs";

const name = process.argv[2];
const threads = Number(process.argv[3]);
const ort = requirePeer(name);
if (name === "onnxruntime-web") ort.env.wasm.numThreads = threads;
ort.env.logLevel = "error";

const options =
  name === "onnxruntime-web"
    ? { executionProviders: ["wasm"], logSeverityLevel: 3 }
    : { executionProviders: ["cpu"], logSeverityLevel: 3, intraOpNumThreads: threads, interOpNumThreads: 1, executionMode: "sequential" };

serve(openSession(ort, options, process.argv[4] === "preallocated"));
