/** What the compiler makes of a model, as text: graph, regions and memory plan. For `npurt inspect` and for looking at one pass. */
import { formatDims } from "../graph/dims";
import { printGraph } from "../graph/text";
import type { Instruction, Strip, View } from "../program/types";
import { runPipeline } from "./pipeline";
import type { MemoryPlan } from "./state";
import type { CompileOptions, ModelInfo } from "./types";

export interface Description {
  readonly info: ModelInfo;
  /** The graph after the last pass that worked on it. */
  readonly graph: string;
  /** Instructions by region; undefined when `stopAfter` ends before lowering. */
  readonly regions: string | undefined;
  readonly plan: string | undefined;
  /** Numbers behind `plan`. */
  readonly memory: { readonly arenaBytes: number; readonly largestLiveBytes: number; readonly dataBytes: number } | undefined;
  readonly image: Uint8Array | undefined;
}

export function describe(bytes: Uint8Array, options: CompileOptions = {}): Description {
  const { info, graph, program, regions, plan, data, compiled } = runPipeline(bytes, options);
  const shown = regions ?? (program && [program.instructions]);
  return {
    info,
    graph: printGraph(graph),
    regions: shown
      ?.map((region, index) => [`region ${index}`, ...region.map((instruction) => `  ${printInstruction(instruction)}`)].join("\n"))
      .join("\n"),
    plan: plan && printPlan(plan),
    memory: plan && { arenaBytes: plan.arenaBytes, largestLiveBytes: plan.largestLiveBytes, dataBytes: data?.end ?? 0 },
    image: compiled?.image,
  };
}

const printView = (view: View): string => `${view.blob.name} ${view.dtype}${formatDims(view.dims)}`;

/** One line: what is written, from what, and what is done on the way. */
export function printInstruction(instruction: Instruction): string {
  const { op, node } = instruction;
  switch (op) {
    case "map":
      return `map ${instruction.strip.outputs.map(({ view }) => printView(view)).join(", ")} = ${printStrip(instruction.strip)}  ; ${node}`;
    case "copy":
      return `copy ${printView(instruction.target)} = ${printView(instruction.source)}  ; ${node}`;
    case "reduce":
      return `reduce ${instruction.fold} ${printView(instruction.target)} = ${printView(instruction.source)} over ${instruction.axes}  ; ${node}`;
    case "pool":
      return `pool ${instruction.kind} ${printView(instruction.target)} = ${printView(instruction.source)}  ; ${node}`;
    case "matmul":
      return `matmul ${printView(instruction.target)} = ${printView(instruction.a)} x ${printView(instruction.b)}${instruction.packed ? " packed" : ""}${then(instruction.epilogue)}  ; ${node}`;
    case "matmul_integer":
      return `matmul_integer ${printView(instruction.target)} = ${printView(instruction.a)} x ${printView(instruction.b)}${then(instruction.epilogue)}  ; ${node}`;
    case "attention":
      return `attention ${printView(instruction.target)} = ${[instruction.q, instruction.k, instruction.v].map(printView).join(", ")}${instruction.mask ? ` with ${printView(instruction.mask)}` : ""}  ; ${node}`;
    case "conv":
      return `conv ${printView(instruction.target)} = ${printView(instruction.source)} * ${printView(instruction.weights)}${then(instruction.epilogue)}  ; ${node}`;
    default:
      return `${op}  ; ${node}`;
  }
}

const then = (strip: Strip | undefined): string => (strip ? ` then ${printStrip(strip)}` : "");

/** The value of the first output as one nested expression. */
function printStrip({ values, outputs }: Strip): string {
  const text: string[] = [];
  for (const value of values) {
    switch (value.kind) {
      case "input":
        text.push(value.view.blob.name);
        break;
      case "constant":
        text.push(String(value.value));
        break;
      case "accumulator":
        text.push("acc");
        break;
      default:
        text.push(`${value.op}(${value.args.map((arg) => text[arg]).join(", ")})`);
    }
  }
  return outputs.map(({ value }) => text[value]).join("; ");
}

export function printPlan({ arenaBytes, largestLiveBytes, placements }: MemoryPlan): string {
  const rows = [...placements]
    .sort((a, b) => a.first - b.first || a.offsetBytes - b.offsetBytes)
    .map(
      ({ blobs, offsetBytes, sizeBytes, first, last }) =>
        `  ${String(offsetBytes).padStart(10)} ${String(sizeBytes).padStart(10)}  regions ${first}..${last}  ${blobs.map(({ name }) => name).join(" = ")}`,
    );
  return [`arena ${arenaBytes} bytes, largest live set ${largestLiveBytes} bytes`, "      offset      bytes", ...rows].join("\n");
}
