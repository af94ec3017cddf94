/** Files that are damaged, hostile or simply wrong: each gives a typed error, none traps, hangs or reads outside its folder. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { importOnnx } from "../../../dist/lib/import/onnx/model";
import { tensor } from "../../../dist/lib/graph/tensor";
import { compileModel } from "../../../dist/lib/compile/pipeline";
import { hasSuites, modelFile } from "../../ops/suite";
import { messageOf, model, modelOf, type ModelInit } from "../../ops/models";

const small: ModelInit = {
  nodes: [
    { op: "Conv", inputs: ["x", "w"], outputs: ["c"], name: "conv", attributes: { pads: [1n, 1n, 1n, 1n] } },
    { op: "Relu", inputs: ["c"], outputs: ["y"], name: "relu" },
  ],
  inputs: [{ name: "x", dims: ["N", 1, 4, 4] }],
  outputs: [{ name: "y", dtype: "float32", dims: ["N", 2, 4, 4] }],
  constants: {
    w: tensor(
      "float32",
      [2, 1, 3, 3],
      Array.from({ length: 18 }, (_, i) => i - 9),
    ),
  },
};
const good = model(small);

function refusal(bytes: Uint8Array, folder?: string): AclError {
  try {
    compileModel(bytes, folder === undefined ? {} : { folder });
  } catch (error) {
    expect(error).toBeInstanceOf(AclError);
    return error as AclError;
  }
  throw new Error("the model was accepted");
}
// biome-ignore lint/suspicious/noExplicitAny: a message on its way to being damaged has no type
type Loose = any;
const change = (edit: (graph: Loose) => void): Uint8Array => {
  const message = messageOf(small) as Loose;
  edit(message.graph);
  return modelOf(message);
};

test("the model that the others are made of is good", () => {
  expect(compileModel(good, {}).program.instructionCount).toBeGreaterThan(0);
});

test("cut off at every byte", () => {
  const codes = new Set<number>();
  for (let length = 0; length < good.byteLength; length++) {
    try {
      compileModel(good.subarray(0, length));
      // What is left can be a whole message: the fields that were cut off must then be ones that a model can do without.
      expect(length).toBeGreaterThan(good.byteLength - 30);
    } catch (error) {
      expect(error).toBeInstanceOf(AclError);
      codes.add((error as AclError).code);
    }
  }
  expect(codes.has(100006)).toBe(true);
  expect([...codes].every((code) => [100006, 100012, 100013, 100024, 100021, 100017, 100026].includes(code))).toBe(true);
});

test("every byte flipped", () => {
  for (let at = 0; at < good.byteLength; at++) {
    const bytes = good.slice();
    bytes[at]! ^= 0xff;
    try {
      compileModel(bytes);
    } catch (error) {
      expect([at, error instanceof AclError]).toEqual([at, true]);
    }
  }
});

test("a length of 2 GiB", () => {
  // Field 7 (graph), wire type 2, length 2^31 - 1.
  const error = refusal(Uint8Array.of(0x08, 0x08, 0x3a, 0xff, 0xff, 0xff, 0xff, 0x07, 0x0a, 0x00));
  expect([error.code, error.message]).toEqual([100006, expect.stringMatching(/not a valid ONNX file/)]);
});

test("not a model at all", () => {
  expect(refusal(new TextEncoder().encode("<html>404</html>")).code).toBe(100006);
  expect(refusal(new Uint8Array(0)).message).toMatch(/empty/);
  expect(refusal(modelOf({ irVersion: 8n })).message).toMatch(/no graph/);
});

const CASES: readonly [title: string, edit: (graph: Loose) => void, code: number, text: RegExp][] = [
  ["a cycle", (g) => (g.node[0].input[0] = "y"), 100013, /cycle through "conv", "relu"|cycle through "relu", "conv"/],
  ["a value defined twice", (g) => (g.node[1].output[0] = "c"), 100013, /"c" is defined twice/],
  ["an input that nothing produces", (g) => (g.node[1].input[0] = "ghost"), 100013, /"ghost" \(read by node "relu"\)/],
  ["a node without its required input", (g) => (g.node[1].input = []), 100021, /lacks its input "x"/],
  ["too many inputs", (g) => g.node[1].input.push("x", "x"), 100021, /at most 1/],
  ["too many outputs", (g) => g.node[1].output.push("z"), 100022, /at most 1/],
  ["an unknown attribute", (g) => g.node[0].attribute.push({ name: "padz", type: 2, i: 1n }), 100023, /"padz".*pads/],
  ["an attribute of the wrong type", (g) => (g.node[0].attribute = [{ name: "pads", type: 1, f: 1 }]), 100023, /"pads" must be a list of integers/],
  ["an attribute twice", (g) => g.node[0].attribute.push(g.node[0].attribute[0]), 100013, /"pads" twice/],
  ["a tensor attribute without a tensor", (g) => (g.node[0].attribute = [{ name: "pads", type: 4 }]), 100013, /has none/],
  ["an output that nothing produces", (g) => (g.output[0].name = "nowhere"), 100013, /"nowhere" is produced by no/],
  ["no outputs", (g) => (g.output = []), 100013, /no outputs/],
  ["weights shorter than their dims", (g) => (g.initializer[0].rawData = new Uint8Array(8)), 100012, /"w" holds 8 bytes.*needs 72/],
  ["weights with negative dims", (g) => (g.initializer[0].dims = [-2n, 1n, 3n, 3n]), 100012, /no device can hold/],
  ["weights with dims of 2^62", (g) => (g.initializer[0].dims = [2n ** 62n, 4n]), 100012, /no device can hold/],
  ["weights of an unknown type", (g) => (g.initializer[0].dataType = 99), 100012, /element type 99/],
  ["weights of strings", (g) => (g.initializer[0].dataType = 8), 100026, /strings/],
  ["an input of an unknown type", (g) => (g.input[0].type.value.value.elemType = 77), 100013, /element type 77/],
  ["an input without a type", (g) => delete g.input[0].type, 100026, /no element type/],
  ["a sequence as input", (g) => (g.input[0].type = { value: { case: "sequenceType", value: {} } }), 100026, /no tensor \(sequence\)/],
  ["an output declared as another type", (g) => (g.output[0].type.value.value.elemType = 7), 100013, /declared int64/],
  ["shapes that do not fit", (g) => (g.input[0].type.value.value.shape.dim[1] = { value: { case: "dimValue", value: 3n } }), 100021, /3 channels/],
  ["a domain without an operator set", (g) => (g.node[0].domain = "com.example"), 100013, /imports no operator set/],
  ["sparse weights without values", (g) => (g.sparseInitializer = [{}]), 100012, /sparse and lacks its values/],
];
test.each(CASES)("%s", (_title, edit, code, text) => {
  const error = refusal(change(edit));
  expect([error.code, error.message]).toEqual([code, expect.stringMatching(text)]);
});

test("unsupported operators are listed all at once, with their opset and the nearest one we have", () => {
  const error = refusal(
    model({
      ...small,
      opset: 13,
      nodes: [
        { op: "Reluu", inputs: ["x"], outputs: ["a"], name: "first" },
        { op: "Relu", inputs: ["a"], outputs: ["b"] },
        { op: "ImageDecoder", inputs: ["b"], outputs: ["y"], name: "second" },
      ],
    }),
  );
  expect(error.code).toBe(100024);
  expect(error.failures.map(({ node }) => node)).toEqual(["first", "second"]);
  expect(error.message).toMatch(/2 nodes are not supported: "first" \(Reluu, opset 13; nearest supported: Relu.*"second" \(ImageDecoder/);
});

test("nodes that cannot run as they are, are listed all at once", () => {
  const error = refusal(
    model({
      ...small,
      nodes: [
        { op: "Einsum", inputs: ["x", "x", "x"], outputs: ["a"], name: "first", attributes: { equation: "abcd,abcd,abcd->abcd" } },
        { op: "LRN", inputs: ["x"], outputs: ["b"], name: "second", attributes: { size: 100_001n } },
        { op: "Conv", inputs: ["v", "u"], outputs: ["c"], name: "third" },
      ],
      inputs: [...small.inputs!, { name: "v", dtype: "float64", dims: [1, 1, 5, 5] }, { name: "u", dtype: "float64", dims: [1, 1, 3, 3] }],
      outputs: [{ name: "a" }, { name: "b" }, { name: "c", dtype: "float64" }],
    }),
  );
  expect([error.code, error.failures.map(({ node }) => node)]).toEqual([100024, ["first", "second", "third"]]);
});

(hasSuites ? test : test.skip)("a real model cut off at every 64th byte", () => {
  const whole = fs.readFileSync(modelFile("mnist_8", "model.onnx"));
  for (let length = 0; length < whole.byteLength - 64; length += 64) {
    expect(() => importOnnx(whole.subarray(0, length))).toThrow(AclError);
  }
});

test("nodes out of order are sorted, names that repeat are told apart", () => {
  const reversed = change((g) => {
    g.node.reverse();
    for (const node of g.node) {
      node.name = "same";
    }
  });
  const { graph } = importOnnx(reversed);
  expect(graph.nodes.map(({ op, name }) => [op, name])).toEqual([
    ["Conv", "same#2"],
    ["Relu", "same"],
  ]);
});

test("weights stay views of the file", () => {
  const { graph } = importOnnx(good);
  expect(graph.nodes[0]!.inputs[1]!.constant!.bytes.buffer).toBe(good.buffer);
});

test("weights in typed fields, packed as protobuf packs them", () => {
  const floats = new Uint8Array(Float32Array.from({ length: 18 }, (_, i) => i - 9).buffer);
  const bytes = change((g) => Object.assign(g.initializer[0], { rawData: new Uint8Array(0), floatData: [floats] }));
  expect(compileModel(bytes).data.map(({ bytes: data }) => [...data])).toEqual(compileModel(good).data.map(({ bytes: data }) => [...data]));
  const short = change((g) => Object.assign(g.initializer[0], { rawData: new Uint8Array(0), floatData: [floats.subarray(0, 70)] }));
  expect(refusal(short).message).toMatch(/70 bytes/);
});

describe("external data", () => {
  let folder: string;
  beforeAll(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-external-"));
    fs.mkdirSync(path.join(folder, "model"));
    fs.writeFileSync(path.join(folder, "model/w.bin"), new Uint8Array(100));
    fs.writeFileSync(path.join(folder, "secret.bin"), new Uint8Array(100));
    fs.symlinkSync(path.join(folder, "secret.bin"), path.join(folder, "model/link.bin"));
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  const external = (fields: Record<string, string>): Uint8Array =>
    change((g) =>
      Object.assign(g.initializer[0], {
        rawData: new Uint8Array(0),
        dataLocation: 1,
        externalData: Object.entries(fields).map(([key, value]) => ({ key, value })),
      }),
    );

  test("is read from the model's folder", () => {
    expect(
      compileModel(external({ location: "w.bin", offset: "16", length: "72" }), { folder: path.join(folder, "model") }).dataBytes,
    ).toBeGreaterThan(0);
  });
  const refused: readonly [string, Record<string, string>, number, RegExp][] = [
    ["parent folder", { location: "../secret.bin" }, 100003, /leads out/],
    ["parent folder in the middle", { location: "x/../../secret.bin" }, 100003, /leads out/],
    ["Windows separators", { location: "..\\secret.bin" }, 100003, /leads out/],
    ["absolute path", { location: "/etc/passwd" }, 100003, /leads out/],
    ["drive letter", { location: "C:\\secret.bin" }, 100003, /leads out/],
    ["symbolic link", { location: "link.bin" }, 100003, /symbolic link/],
    ["folder", { location: "." }, 100003, /plain relative path/],
    ["no name", {}, 100003, /names no file/],
    ["missing file", { location: "absent.bin" }, 100003, /no such file/],
    ["past the end", { location: "w.bin", offset: "64" }, 100012, /leave the file/],
    ["huge offset", { location: "w.bin", offset: "9223372036854775807" }, 100012, /whole number/],
    ["negative offset", { location: "w.bin", offset: "-4" }, 100012, /whole number/],
    ["wrong length", { location: "w.bin", length: "8" }, 100012, /needs 72/],
  ];
  test.each(refused)("refuses: %s", (_title, fields, code, text) => {
    const error = refusal(external(fields), path.join(folder, "model"));
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(text)]);
  });
  test("refuses without a folder", () => {
    expect(refusal(external({ location: "w.bin" })).message).toMatch(/given as bytes/);
  });
});
