/** `npurt inspect`: what becomes of a model on its way to the device: graph, regions, program, memory plan. */
import { describe, type Description } from "../compile/describe";
import { disassemble } from "../program/disassemble";
import { shapesOf } from "./feeds";
import { readModel } from "./model";
import { formatBytes, print, printJson, table } from "./output";
import type { InspectFlags } from "./arguments";

/** A model of this size takes more than a second to compile. */
const SLOW_BYTES = 16 * 2 ** 20;

export async function inspect(model: string, flags: InspectFlags): Promise<void> {
  const { bytes, folder, info } = readModel(model);
  const shapes = shapesOf(info.inputs, flags.dim ?? []);
  // The compiler works in one go here; whoever waits for it should know what for.
  if (process.stderr.isTTY && bytes.length > SLOW_BYTES) process.stderr.write(`compiling ${formatBytes(bytes.length)} ...\n`);
  const description = describe(bytes, { folder, shapes });
  const program = description.image === undefined ? "" : disassemble(description.image, info.inputs.length);
  if (flags.json) {
    const { graph, regions, memory } = description;
    printJson({ model, ...info, shapes, graph, regions, program, memory, imageBytes: description.image?.length });
    return;
  }
  print(summary(model, bytes.length, description, shapes));
  for (const [title, text] of sections(description, program)) print(`\n${title}\n${text.trimEnd()}`);
}

function summary(
  model: string,
  fileBytes: number,
  { info, memory, image }: Description,
  shapes: Readonly<Record<string, readonly number[]>>,
): string {
  const opsets = Object.entries(info.opsets).map(([domain, version]) => `${domain || "onnx"} ${version}`);
  const rows = [
    ["model", `${info.name || model}, ${formatBytes(fileBytes)}, by ${info.producer || "unknown"}, IR ${info.irVersion}, opset ${opsets.join(", ")}`],
  ];
  for (const { name, dtype, dims } of info.inputs)
    rows.push(["input", `${name} ${dtype} [${dims.join(", ")}], here [${(shapes[name] ?? []).join(", ")}]`]);
  for (const { name, dtype, dims } of info.outputs) rows.push(["output", `${name} ${dtype} [${dims.join(", ")}]`]);
  if (memory !== undefined) {
    rows.push(["data", formatBytes(memory.dataBytes)]);
    rows.push(["arena", `${formatBytes(memory.arenaBytes)}, largest live set ${formatBytes(memory.largestLiveBytes)}`]);
  }
  if (image !== undefined) rows.push(["program", formatBytes(image.length)]);
  return table(rows, "");
}

function sections({ graph, regions, plan }: Description, program: string): [title: string, text: string][] {
  return [
    ["== graph", graph],
    ["== regions", regions ?? ""],
    ["== program", program],
    ["== memory plan of the arena", plan ?? ""],
  ];
}
