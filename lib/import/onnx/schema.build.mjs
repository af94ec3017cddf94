// Writes generated/schema.ts: the part of ONNX's protobuf schema that inference needs, as one descriptor and the types of its messages.
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

const out = path.join(path.dirname(fileURLToPath(import.meta.url)), "generated/schema.ts");

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

const file = prune();
const schema = (name) => {
  const index = file.messageType.findIndex((message) => message.name === name);
  return `export const ${name}Schema: GenMessage<${name}> = messageDesc(file, ${index});`;
};
const base64 = Buffer.from(toBinary(FileDescriptorProtoSchema, file)).toString("base64");
const text = `// Written by schema.build.mjs; not to be edited or committed.
import type { Message } from "@bufbuild/protobuf";
import { fileDesc, type GenMessage, messageDesc } from "@bufbuild/protobuf/codegenv2";

${file.messageType.map((message) => emitMessage(message, "")).join("\n")}

const file = fileDesc("${base64}");
${["ModelProto", "TensorProto"].map(schema).join("\n")}
`;
fs.mkdirSync(path.dirname(out), { recursive: true });
if (!fs.existsSync(out) || fs.readFileSync(out, "utf8") !== text) {
  fs.writeFileSync(out, text);
}
