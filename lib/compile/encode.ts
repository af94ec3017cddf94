/** encode: data blobs get their offsets, then the plan becomes the program image. */
import { DTYPES } from "../graph/dtype";
import type { Value } from "../graph/ir";
import { sizeOf } from "../graph/tensor";
import { encode } from "../program/encode";
import { readsOf } from "./operands";
import { aligned } from "./plan";
import type { CompileState } from "./state";
import type { DataSegment, Port } from "./types";

export function encodeProgram(state: CompileState): void {
  const { graph, program, regions, plan } = state;
  state.data = placeData(state);
  const { image, costNs, instructionCount, regionCount } = encode({
    regions: regions!,
    blobs: program!.blobs,
    inputs: graph.inputs.length,
    outputs: graph.outputs.length,
    arenaBytes: plan!.arenaBytes,
    ...(state.options.build === undefined ? {} : { build: state.options.build }),
  });
  state.compiled = {
    image,
    inputs: ports(graph.inputs),
    outputs: ports(graph.outputs),
    arenaBytes: plan!.arenaBytes,
    costNs,
    instructionCount,
    regionCount,
  };
}

/** Data that the executor has keeps its place; the rest is appended. */
function placeData({ program, options, regions }: CompileState): { segments: DataSegment[]; end: number } {
  const used = new Set(regions!.flatMap((region) => region.flatMap((instruction) => readsOf(instruction).map(({ blob }) => blob))));
  const segments: DataSegment[] = [];
  let end = options.dataBytes ?? 0;
  for (const [blob, { key, bytes }] of program!.data) {
    if (!used.has(blob)) {
      continue;
    }
    const known = options.known?.[key];
    if (known !== undefined) {
      blob.offsetBytes = known;
      continue;
    }
    blob.offsetBytes = aligned(end);
    segments.push({ key, offsetBytes: blob.offsetBytes, bytes });
    end = blob.offsetBytes + bytes.byteLength;
  }
  return { segments, end };
}

/** Values side by side, as a frame holds them. */
function ports(values: readonly Value[]): Port[] {
  let offset = 0;
  return values.map((value) => {
    const dims = value.dims as readonly number[];
    const sizeBytes = sizeOf(dims) * DTYPES[value.dtype!].bytes;
    const port: Port = { name: value.name, dtype: value.dtype!, dims, offsetBytes: offset, sizeBytes };
    offset = aligned(offset + sizeBytes);
    return port;
  });
}
