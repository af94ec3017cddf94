// Writes, from ONNX's protobuf schema, the part that inference needs:
// - generated/messages.ts: the types of the messages;
// - generated/read.ts: a reader for them on protobuf's wire format: all that the product loads (descriptors and reflection cost a cold start 60 files);
// - generated/schema.ts: the same as descriptors, for tools and tests that write models.
// The schema comes from the dev dependency `onnx-buf`. Two things are changed, neither visible in the bytes of a model:
// fields that inference never reads are left out, and packed scalar arrays of TensorProto are read as bytes (the wire form is the same),
// so a weight stays a view of the file instead of becoming a JS array.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { clone, toBinary } from "@bufbuild/protobuf";
import { FieldDescriptorProto_Label as Label, FieldDescriptorProto_Type as Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { file_onnx } from "onnx-buf";

const ROOT = "onnx.ModelProto";
const DROPPED = {
  "*": ["doc_string", "device_configurations"],
  ModelProto: ["training_info", "configuration"],
  GraphProto: ["value_info", "quantization_annotation", "metadata_props"],
  NodeProto: ["metadata_props"],
  TensorProto: ["segment", "metadata_props"],
  ValueInfoProto: ["metadata_props"],
  FunctionProto: ["value_info", "metadata_props"],
};
const AS_BYTES = ["float_data", "int32_data", "int64_data", "double_data", "uint64_data"];

const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), "generated");

function prune() {
  const file = clone(FileDescriptorProtoSchema, file_onnx.proto);
  file.name = "npurt/onnx.proto";
  const visit = (message) => {
    const dropped = [...DROPPED["*"], ...(DROPPED[message.name] ?? [])];
    message.field = message.field.filter((field) => !dropped.includes(field.name));
    message.reservedRange = [];
    message.reservedName = [];
    for (const field of message.field) {
      field.jsonName = "";
      if (message.name === "TensorProto" && AS_BYTES.includes(field.name)) {
        field.type = Type.BYTES;
        field.options = undefined;
      }
    }
    message.nestedType = message.nestedType.filter(({ name }) => name !== "Segment");
    message.nestedType.forEach(visit);
  };
  file.messageType.forEach(visit);
  const reached = new Set();
  const reach = (name) => {
    const message = file.messageType.find((each) => `onnx.${each.name}` === name || name.startsWith(`onnx.${each.name}.`));
    if (!message || reached.has(message.name)) {
      return;
    }
    reached.add(message.name);
    const fields = (each) => [...each.field, ...each.nestedType.flatMap(fields)];
    for (const field of fields(message)) {
      if (field.typeName) {
        reach(field.typeName.slice(1));
      }
    }
  };
  reach(ROOT);
  file.messageType = file.messageType.filter((message) => reached.has(message.name));
  file.enumType = [];
  return file;
}

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const typeName = (dotted) => dotted.replace(/^\.?onnx\./, "").replaceAll(".", "_");

function scalarType(field) {
  switch (field.type) {
    case Type.MESSAGE:
      return typeName(field.typeName);
    case Type.STRING:
      return "string";
    case Type.BYTES:
      return "Uint8Array";
    case Type.INT64:
    case Type.UINT64:
      return "bigint";
    default:
      return "number";
  }
}

function emitMessage(message, prefix) {
  const name = prefix + message.name;
  const members = message.field
    .filter((field) => field.oneofIndex === undefined || !Object.hasOwn(field, "oneofIndex"))
    .map((field) => {
      const many = field.label === Label.REPEATED;
      const optional = field.type === Type.MESSAGE && !many ? "?" : "";
      return `  ${camel(field.name)}${optional}: ${scalarType(field)}${many ? "[]" : ""};`;
    });
  message.oneofDecl.forEach((oneof, index) => {
    const cases = message.field
      .filter((field) => Object.hasOwn(field, "oneofIndex") && field.oneofIndex === index)
      .map((field) => `{ case: "${camel(field.name)}"; value: ${scalarType(field)} }`);
    members.push(`  ${camel(oneof.name)}: ${[...cases, "{ case: undefined; value?: undefined }"].join(" | ")};`);
  });
  const full = `onnx.${name.replaceAll("_", ".")}`;
  return [
    `export type ${name} = Message<"${full}"> & {\n${members.join("\n")}\n};`,
    ...message.nestedType.map((nested) => emitMessage(nested, `${name}_`)),
  ].join("\n");
}

const isOneof = (field) => Object.hasOwn(field, "oneofIndex");
const flat = (message, prefix = "") => [
  { name: prefix + message.name, message },
  ...message.nestedType.flatMap((nested) => flat(nested, `${prefix}${message.name}_`)),
];

const READS = {
  [Type.STRING]: [2, "reader.string()"],
  [Type.BYTES]: [2, "reader.bytes()"],
  [Type.INT64]: [0, "(reader.int64() as bigint)"],
  [Type.UINT64]: [0, "(reader.uint64() as bigint)"],
  [Type.INT32]: [0, "reader.int32()"],
  [Type.ENUM]: [0, "reader.int32()"],
  [Type.FLOAT]: [5, "reader.float()"],
  [Type.DOUBLE]: [1, "reader.double()"],
};

function emitField(field, message) {
  const name = camel(field.name);
  const many = field.label === Label.REPEATED;
  if (field.type === Type.MESSAGE) {
    const read = `nested(reader, wire, end, depth, read${typeName(field.typeName)})`;
    if (isOneof(field)) {
      return `message.${camel(message.oneofDecl[field.oneofIndex].name)} = { case: "${name}", value: ${read} };`;
    }
    return many ? `message.${name}.push(${read});` : `message.${name} = ${read};`;
  }
  const [wire, read] = READS[field.type];
  if (isOneof(field)) {
    return `expectWire(wire, ${wire}); message.${camel(message.oneofDecl[field.oneofIndex].name)} = { case: "${name}", value: ${read} };`;
  }
  if (many && wire !== 2) {
    return `repeated(reader, wire, end, ${wire}, () => message.${name}.push(${read}));`;
  }
  return `expectWire(wire, ${wire}); ${many ? `message.${name}.push(${read});` : `message.${name} = ${read};`}`;
}

/** Scalars have their defaults on the prototype, so that an own property means that the file has the field. */
function emitReader({ name, message }) {
  const scalar = (field) => field.label !== Label.REPEATED && field.type !== Type.MESSAGE && !isOneof(field);
  const zero = (field) => ({ string: '""', bigint: "0n", number: "0", Uint8Array: "new Uint8Array(0)" })[scalarType(field)];
  const defaults = message.field.filter(scalar).map((field) => `${camel(field.name)}: ${zero(field)}`);
  const own = [
    ...message.field.filter((field) => field.label === Label.REPEATED).map((field) => `message.${camel(field.name)} = [];`),
    ...message.oneofDecl.map((oneof) => `message.${camel(oneof.name)} = { case: undefined };`),
  ];
  return `const defaults${name} = { $typeName: "onnx.${name.replaceAll("_", ".")}", ${defaults.join(", ")} };
export function read${name}(reader: BinaryReader, end: number, ${message.field.some((field) => field.type === Type.MESSAGE) ? "" : "_"}depth: number): ${name} {
  const message = Object.create(defaults${name}) as ${name};
  ${own.join(" ")}
  while (reader.pos < end) {
    const [field, wire] = reader.tag();
    switch (field) {
${message.field.map((field) => `      case ${field.number}: ${emitField(field, message)} break;`).join("\n")}
      default: reader.skip(wire, field);
    }
  }
  return message;
}`;
}

const HEAD = "// Written by schema.build.mjs; not to be edited or committed.\n";
const file = prune();
const messages = file.messageType.flatMap((message) => flat(message));

function write(name, text) {
  const out = path.join(folder, name);
  if (!fs.existsSync(out) || fs.readFileSync(out, "utf8") !== HEAD + text) {
    fs.writeFileSync(out, HEAD + text);
  }
}

fs.mkdirSync(folder, { recursive: true });
write(
  "messages.ts",
  `import type { Message } from "@bufbuild/protobuf";

${file.messageType.map((message) => emitMessage(message, "")).join("\n")}
`,
);

write(
  "read.ts",
  `import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { expectWire, nested, repeated } from "../wire";
import type {
  ${messages.map(({ name }) => name).join(",\n  ")},
} from "./messages";

${messages.map(emitReader).join("\n\n")}
`,
);

const schema = (name) => {
  const index = file.messageType.findIndex((message) => message.name === name);
  return `export const ${name}Schema: GenMessage<${name}> = messageDesc(file, ${index});`;
};
const base64 = Buffer.from(toBinary(FileDescriptorProtoSchema, file)).toString("base64");
write(
  "schema.ts",
  `import { fileDesc, type GenMessage, messageDesc } from "@bufbuild/protobuf/codegenv2";
import type { ModelProto, TensorProto } from "./messages";

const file = fileDesc("${base64}");
${["ModelProto", "TensorProto"].map(schema).join("\n")}
`,
);
