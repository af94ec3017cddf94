/** Strings run on the host, between programs of the device. Expected values are written down here. */
import { Device } from "npurt";
import { AclError } from "../../dist/lib/errors/acl-error";
import { tensor } from "../../dist/lib/graph/tensor";
import { InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { type ModelInit, model, type NodeInit } from "../ops/models";

let device: Device;
beforeAll(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
});
afterAll(() => device.close());

const session = (init: ModelInit): Promise<InferenceSession> => InferenceSession.create(model({ opset: 20, ...init }));
const words = (list: readonly string[], dims: readonly number[] = [list.length]): Tensor => new Tensor("string", [...list], dims);
const one = (op: string, attributes: NodeInit["attributes"] = {}, outputs = 1, inputs = ["x"]): ModelInit => ({
  nodes: [{ op, inputs, outputs: Array.from({ length: outputs }, (_, i) => `y${i}`), attributes }],
  inputs: inputs.map((name) => ({ name, dtype: "string" as const, dims: [`${name}.n`] })),
  outputs: Array.from({ length: outputs }, (_, i) => ({ name: `y${i}` })),
});
async function run(init: ModelInit, feeds: Readonly<Record<string, Tensor>>): Promise<[dims: readonly number[], data: unknown[]][]> {
  const created = await session(init);
  const results = await created.run(feeds);
  await created.release();
  return Object.values(results).map(({ dims, data }) => [dims, Array.from(data as ArrayLike<unknown>)]);
}

test("StringNormalizer leaves words out and changes case", async () => {
  const stop = { stopwords: ["monday"] };
  const days = words(["Monday", "tuesday", "monday"]);
  expect(await run(one("StringNormalizer", { ...stop, case_change_action: "UPPER" }), { x: days })).toEqual([[[1], ["TUESDAY"]]]);
  expect(await run(one("StringNormalizer", { ...stop, is_case_sensitive: 1n }), { x: days })).toEqual([[[2], ["Monday", "tuesday"]]]);
  expect(await run(one("StringNormalizer", stop), { x: words(["monday"]) })).toEqual([[[1], [""]]]);
});

test("StringConcat broadcasts, StringSplit fills up", async () => {
  const concat = one("StringConcat", {}, 1, ["a", "b"]);
  expect(await run(concat, { a: words(["x", "y"]), b: words(["-1"]) })).toEqual([[[2], ["x-1", "y-1"]]]);
  const lines = words(["a b  c", "", " d "]);
  expect(await run(one("StringSplit", {}, 2), { x: lines })).toEqual([
    [
      [3, 3],
      ["a", "b", "c", "", "", "", "d", "", ""],
    ],
    [[3], [3n, 0n, 1n]],
  ]);
  const limited = one("StringSplit", { delimiter: ",", maxsplit: 1n }, 2);
  expect(await run(limited, { x: words(["1,2,3", ",4"]) })).toEqual([
    [
      [2, 2],
      ["1", "2,3", "", "4"],
    ],
    [[2], [2n, 2n]],
  ]);
});

test("a pattern that would never come to an end is given up", async () => {
  const endless = one("RegexFullMatch", { pattern: "(a+)+" });
  await expect(run(endless, { x: words([`${"a".repeat(60)}b`]) })).rejects.toMatchObject({
    code: 100017,
    message: expect.stringMatching(/more than 1000 ms/),
  });
  expect(await run(endless, { x: words(["aaa", "b"]) })).toEqual([[[2], [1, 0]]]);
});

test("RegexFullMatch wants the whole string, and a pattern that there is", async () => {
  const mail = one("RegexFullMatch", { pattern: "(?i)[a-z]+@[a-z]+\\.(com|org)" });
  expect(await run(mail, { x: words(["Ab@c.com", "a@b.com!", "a@b.net"]) })).toEqual([[[3], [1, 0, 0]]]);
  const same = one("RegexFullMatch", { pattern: "\\\\1[(?=]+" });
  expect(await run(same, { x: words(["\\1=(?", "11"]) })).toEqual([[[2], [1, 0]]]);
  for (const pattern of ["(a)\\1", "a(?=b)b", "(?<!a)b"]) {
    await expect(run(one("RegexFullMatch", { pattern }), { x: words(["aa"]) })).rejects.toMatchObject({ code: 100023 });
  }
  const broken = run(one("RegexFullMatch", { pattern: "(" }), { x: words(["a"]) });
  await expect(broken).rejects.toThrow(AclError);
  await expect(broken).rejects.toThrow(/the pattern is none/);
});

test("labels become numbers for the device and words again behind it", async () => {
  const label: ModelInit = {
    nodes: [
      {
        op: "LabelEncoder",
        domain: "ai.onnx.ml",
        inputs: ["x"],
        outputs: ["code"],
        attributes: { keys_strings: ["a", "b"], values_int64s: [10n, 20n] },
      },
      { op: "Add", inputs: ["code", "two"], outputs: ["sum"] },
      {
        op: "LabelEncoder",
        domain: "ai.onnx.ml",
        inputs: ["sum"],
        outputs: ["word"],
        attributes: { keys_int64s: [12n, 1n], values_strings: ["twelve", "one"] },
      },
    ],
    inputs: [{ name: "x", dtype: "string", dims: ["n"] }],
    constants: { two: tensor("int64", [], [2]) },
    outputs: [{ name: "sum" }, { name: "word" }],
    opsets: { "": 20, "ai.onnx.ml": 2 },
  };
  expect(await run(label, { x: words(["b", "a", "c"]) })).toEqual([
    [[3], [22n, 12n, 1n]],
    [[3], ["_Unused", "twelve", "one"]],
  ]);
});

test("words are compared on the host, the device goes on with what comes out", async () => {
  const init: ModelInit = {
    nodes: [
      { op: "Equal", inputs: ["a", "b"], outputs: ["same"] },
      { op: "Cast", inputs: ["same"], outputs: ["number"], attributes: { to: 1n } },
    ],
    inputs: [
      { name: "a", dtype: "string", dims: ["n"] },
      { name: "b", dtype: "string", dims: [1] },
    ],
    outputs: [{ name: "number" }],
  };
  expect(await run(init, { a: words(["x", "y", "x"]), b: words(["x"]) })).toEqual([[[3], [1, 0, 1]]]);
});

test("n-grams are counted", async () => {
  const init = one("TfIdfVectorizer", {
    ...{ mode: "TF", min_gram_length: 1n, max_gram_length: 2n, max_skip_count: 1n },
    ...{ ngram_counts: [0n, 2n], ngram_indexes: [0n, 1n, 2n], pool_strings: ["a", "b", "a", "b"] },
  });
  // "a b" side by side twice, and once with one word between.
  expect(await run(init, { x: words(["a", "b", "a", "c", "b", "a", "b"]) })).toEqual([[[3], [3, 3, 3]]]);
});

test("an operator of the device that is given words says so when the model is loaded", async () => {
  const init: ModelInit = { ...one("Relu"), outputs: [{ name: "y0" }] };
  await expect(session(init)).rejects.toThrow(/takes strings/);
});
