/** Writes small ONNX models for tests, through the same protobuf schema that the importer reads with. */
import { create, toBinary } from "@bufbuild/protobuf";
import { DTYPES, type DtypeName } from "../../dist/lib/graph/dtype";
import type { Attribute } from "../../dist/lib/graph/ir";
import { encode, type Stored, type Tensor } from "../../dist/lib/graph/tensor";
import { ModelProtoSchema } from "../../dist/lib/import/onnx/generated/schema";

type Init = Parameters<typeof create<typeof ModelProtoSchema>>[1] & object;
export type GraphInit = NonNullable<Init["graph"]>;

export interface NodeInit {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly name?: string;
  readonly domain?: string;
  readonly attributes?: Readonly<Record<string, Attribute | { readonly body: ModelInit }>>;
}
export interface ModelInit {
  readonly nodes: readonly NodeInit[];
  readonly inputs?: readonly { readonly name: string; readonly dtype?: DtypeName; readonly dims: readonly (number | string)[] }[];
  readonly outputs: readonly { readonly name: string; readonly dtype?: DtypeName; readonly dims?: readonly (number | string)[] }[];
  readonly constants?: Readonly<Record<string, Tensor>>;
  readonly opset?: number;
  readonly opsets?: Readonly<Record<string, number>>;
}

export function model(init: ModelInit): Uint8Array {
  return modelOf(messageOf(init));
}

export function modelOf(init: Init): Uint8Array {
  return toBinary(ModelProtoSchema, create(ModelProtoSchema, init));
}

export function messageOf(init: ModelInit): Init & { graph: GraphInit } {
  // A type is optional for outputs: without one the file says nothing and inference decides.
  const info = ({ name, dtype, dims }: { name: string; dtype?: DtypeName | undefined; dims?: readonly (number | string)[] | undefined }) => ({
    name,
    ...(dtype ? { type: typeOf(dtype, dims) } : {}),
  });
  const typeOf = (dtype: DtypeName, dims: readonly (number | string)[] | undefined) => ({
    value: {
      case: "tensorType" as const,
      value: {
        elemType: DTYPES[dtype].code as number,
        ...(dims
          ? {
              shape: {
                dim: dims.map((dim) => ({
                  value: typeof dim === "number" ? { case: "dimValue" as const, value: BigInt(dim) } : { case: "dimParam" as const, value: dim },
                })),
              },
            }
          : {}),
      },
    },
  });
  return {
    irVersion: 8n,
    producerName: "npurt test",
    opsetImport: Object.entries(init.opsets ?? { "": init.opset ?? 17 }).map(([domain, version]) => ({ domain, version: BigInt(version) })),
    graph: {
      name: "test",
      node: init.nodes.map(({ op, inputs, outputs, name = "", domain = "", attributes = {} }) => ({
        opType: op,
        input: [...inputs],
        output: [...outputs],
        name,
        domain,
        attribute: Object.entries(attributes).map(([key, value]) => attribute(key, value)),
      })),
      input: (init.inputs ?? []).map((input) => info({ dtype: "float32", ...input })),
      output: init.outputs.map(info),
      initializer: Object.entries(init.constants ?? {}).map(([name, value]) => tensorProto(name, encode(value))),
    },
  };
}

export function tensorProto(name: string, { dtype, dims, bytes }: Stored) {
  return { name, dataType: DTYPES[dtype].code as number, dims: dims.map(BigInt), rawData: bytes };
}

function attribute(name: string, value: Attribute | { readonly body: ModelInit }): object {
  if (typeof value === "object" && "body" in value) {
    return { name, type: 5, g: messageOf(value.body).graph };
  }
  if (typeof value === "number") {
    return { name, type: 1, f: value };
  }
  if (typeof value === "bigint") {
    return { name, type: 2, i: value };
  }
  if (typeof value === "string") {
    return { name, type: 3, s: new TextEncoder().encode(value) };
  }
  if (Array.isArray(value) && typeof value[0] === "string") {
    return { name, type: 8, strings: (value as string[]).map((each) => new TextEncoder().encode(each)) };
  }
  if (Array.isArray(value)) {
    return typeof value[0] === "number" ? { name, type: 6, floats: value as number[] } : { name, type: 7, ints: value as bigint[] };
  }
  if (typeof value === "object" && "bytes" in value) {
    return { name, type: 4, t: tensorProto("", value as Stored) };
  }
  throw new Error(`models.ts cannot write attribute ${name}`);
}
