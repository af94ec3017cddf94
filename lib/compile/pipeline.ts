/** The compiler as a list of passes over one state. A pass that breaks the graph is caught by the verifier right after it. */
import { AclError } from "../errors/acl-error";
import { internal } from "../errors/make";
import { verifyGraph } from "../graph/verify";
import { importOnnx } from "../import/onnx/model";
import { bindShapes, completeOutputs, modelInfo } from "./bind";
import { removeDeadNodes } from "./dead";
import { elideCopies } from "./elide";
import { encodeProgram } from "./encode";
import { expandGraph } from "./expand";
import { foldNormalizations } from "./fold";
import { fuseInstructions } from "./fuse";
import { inferGraph } from "./infer";
import { chooseLayouts } from "./layout";
import { lowerGraph } from "./lower";
import { replacePatterns } from "./patterns";
import { planMemory } from "./plan";
import { scheduleRegions } from "./schedule";
import type { CompileState } from "./state";
import type { CompileOptions, CompileResult } from "./types";

export interface Pass {
  readonly name: string;
  /** Left out with `disable`; passes without this flag are needed for what follows. */
  readonly optional?: boolean;
  /** A long pass yields now and then, so that a compilation on the calling thread can let the event loop run. */
  run(state: CompileState): void | Generator<void>;
}

const PASSES: readonly Pass[] = [
  { name: "bind", run: bindShapes },
  { name: "infer", run: inferGraph },
  { name: "expand", run: expandGraph },
  { name: "dead", optional: true, run: removeDeadNodes },
  { name: "fold", optional: true, run: foldNormalizations },
  { name: "patterns", optional: true, run: replacePatterns },
  { name: "layout", optional: true, run: chooseLayouts },
  { name: "lower", run: lowerGraph },
  { name: "fuse", optional: true, run: fuseInstructions },
  { name: "elide", optional: true, run: elideCopies },
  { name: "schedule", run: scheduleRegions },
  { name: "plan", run: planMemory },
  { name: "encode", run: encodeProgram },
];
export const passNames = (): string[] => PASSES.map(({ name }) => name);

/** Runs the passes up to `options.stopAfter`; yields between pieces of work. */
export function* pipelineSteps(bytes: Uint8Array, options: CompileOptions): Generator<void, CompileState> {
  checkPassNames(options);
  const model = importOnnx(bytes, options.folder);
  const state: CompileState = { options, graph: model.graph, info: modelInfo(model) };
  verifyGraph(state.graph, "import");
  yield;
  for (const pass of PASSES) {
    if (!(pass.optional && options.disable?.includes(pass.name))) {
      yield* runPass(pass, state);
      if (!state.program) {
        verifyGraph(state.graph, `pass "${pass.name}"`);
      }
      if (pass.name === "infer") {
        state.info = { ...state.info, outputs: completeOutputs(state.info, state.graph.outputs) };
      }
    }
    yield;
    if (pass.name === options.stopAfter) {
      break;
    }
  }
  return state;
}

/** Whatever a pass throws is a typed error: what is not one of ours comes from an operator of the user or is a defect. */
function* runPass(pass: Pass, state: CompileState): Generator<void> {
  try {
    const steps = pass.run(state);
    if (steps) {
      yield* steps;
    }
  } catch (error) {
    if (error instanceof AclError) {
      throw error;
    }
    if (error instanceof RangeError && /array (length|buffer)/i.test(error.message)) {
      throw new AclError(
        100021,
        `compile: pass "${pass.name}": the model asks for an array of impossible size (${error.message}); its shapes are damaged`,
      );
    }
    throw internal(`compile: pass "${pass.name}" failed: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

export function runPipeline(bytes: Uint8Array, options: CompileOptions): CompileState {
  const steps = pipelineSteps(bytes, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done) {
      return value;
    }
  }
}

function checkPassNames({ disable = [], stopAfter }: CompileOptions): void {
  const known = passNames();
  const required = PASSES.filter(({ optional }) => !optional).map(({ name }) => name);
  for (const name of [...disable, ...(stopAfter === undefined ? [] : [stopAfter])]) {
    if (!known.includes(name)) {
      throw new AclError(100000, `compile: there is no pass "${name}"; passes are ${known.join(", ")}`);
    }
  }
  for (const name of disable) {
    if (required.includes(name)) {
      throw new AclError(100000, `compile: pass "${name}" cannot be left out`);
    }
  }
}

/** Model file -> program image and data. Pure: the result depends on the arguments (and files beside the model) only, and can be posted between threads. */
export function compileModel(bytes: Uint8Array, options: CompileOptions = {}): CompileResult {
  return resultOf(runPipeline(bytes, options));
}

export function resultOf({ info, compiled, data, options }: CompileState): CompileResult {
  if (!compiled || !data) {
    throw new AclError(100000, `compile: \`stopAfter: "${options.stopAfter}"\` leaves no program; use describe() to look at the result of a pass`);
  }
  return { info, program: compiled, data: data.segments, dataBytes: data.end };
}
