/** Code typed for onnxruntime-common compiles against npurt/ort, and our values pass for its own. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import ts from "typescript";

const root = path.join(__dirname, "../..");

const CONSUMER = `
import type * as common from "onnxruntime-common";
import { capabilities, env, InferenceSession, Tensor, type TypedTensor } from "npurt/ort";

// Ours where theirs is asked for.
const factory: common.InferenceSessionFactory = InferenceSession;
const tensors: common.TensorConstructor = Tensor;
const settings: common.Env = env;
const float: common.TypedTensor<"float32"> = new Tensor("float32", [1, 2], [2]);
const any: common.Tensor = new Tensor(new BigInt64Array(2));
const value: common.OnnxValue = new Tensor(["a"]);
declare const session: InferenceSession;
const asTheirs: common.InferenceSession = session;

// Theirs where ours is asked for.
declare const theirs: common.Tensor;
declare const theirOptions: common.InferenceSession.SessionOptions;
declare const theirRunOptions: common.InferenceSession.RunOptions;
declare const theirFetches: common.InferenceSession.FetchesType;

// A runner as it is written for onnxruntime.
export async function infer(api: { InferenceSession: common.InferenceSessionFactory; Tensor: common.TensorConstructor | typeof Tensor }, bytes: Uint8Array) {
  const created = await api.InferenceSession.create(bytes, { executionProviders: ["cpu"], graphOptimizationLevel: "all" });
  const metadata = created.inputMetadata[0];
  const feeds: Record<string, common.Tensor> = { [created.inputNames[0] as string]: any };
  if (metadata?.isTensor) console.log(metadata.type, metadata.shape);
  return created.run(feeds, ["y"]);
}
export const result = infer({ InferenceSession, Tensor }, new Uint8Array(1));

export async function ours(): Promise<void> {
  const made: InferenceSession = await InferenceSession.create("model.onnx", theirOptions);
  const other = await InferenceSession.create(new ArrayBuffer(8), 0, 4, { executionProviders: [{ name: "npurt", frames: 2 }] });
  const results = await made.run({ x: theirs, y: float }, theirFetches, theirRunOptions);
  const output: Tensor | undefined = results["y"];
  const type: Tensor.Type | undefined = output?.type;
  const bools: TypedTensor<"bool"> = new Tensor("bool", [true, false]);
  const longs: BigInt64Array = new Tensor("int64", [1n, 2n]).data;
  const data: Float32Array = float.reshape([1, 2]).data;
  const texts: string[] = await new Tensor(["a"]).getData();
  await other.run({ x: bools }, { signal: AbortSignal.abort() });
  await other.release();
  console.log(type, longs, data, texts, capabilities.dtypes.length, settings, factory, tensors, value, asTheirs);
}

// @ts-expect-error there is no such type
new Tensor("float31", [1]);
// @ts-expect-error data without a class has no type
new Tensor({ length: 1 });
// @ts-expect-error options are checked
InferenceSession.create("model.onnx", { graphOptimizationLevel: "most" });
`;

test("as CommonJS and as ES module", () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-ort-types-"));
  for (const ending of ["cts", "mts"]) fs.writeFileSync(path.join(folder, `consumer.${ending}`), CONSUMER);
  fs.mkdirSync(path.join(folder, "node_modules/@types"), { recursive: true });
  for (const name of ["@types/node", "onnxruntime-common"])
    fs.symlinkSync(path.join(root, "node_modules", name), path.join(folder, "node_modules", name));
  fs.symlinkSync(root, path.join(folder, "node_modules/npurt"));
  const program = ts.createProgram(
    ["cts", "mts"].map((ending) => path.join(folder, `consumer.${ending}`)),
    {
      module: ts.ModuleKind.Node16,
      target: ts.ScriptTarget.ES2022,
      // onnxruntime-common's own types speak of pictures and textures.
      lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      skipLibCheck: true,
      types: ["node"],
      typeRoots: [path.join(folder, "node_modules/@types")],
    },
  );
  const messages = ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const { file, start } = diagnostic;
    const where = file === undefined ? "" : `${path.basename(file.fileName)}:${file.getLineAndCharacterOfPosition(start ?? 0).line + 1}`;
    return `${where}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n")}`;
  });
  fs.rmSync(folder, { recursive: true });
  expect(messages).toEqual([]);
});
