import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { makeFeeds, writeTensor } from "../../../dist/lib/cli/feeds";
import { readNpy } from "../../../dist/lib/cli/npy";
import { UsageError } from "../../../dist/lib/cli/output";
import { Tensor } from "../../../dist/lib/runtime/tensor";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-feeds-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

const image = { name: "image", dtype: "float32", dims: ["N", 2] } as const;
const mask = { name: "mask", dtype: "bool", dims: ["N"] } as const;
const ids = { name: "ids", dtype: "int64", dims: [3] } as const;

describe("makeFeeds", () => {
  test("random values depend on the seed only and stay in the range of their type", () => {
    const feeds = makeFeeds([image, mask, ids], [], [{ name: "N", value: "500" }], 7);
    expect(feeds["image"]?.dims).toEqual([500, 2]);
    expect(makeFeeds([image, mask, ids], [], [{ name: "N", value: "500" }], 7)).toEqual(feeds);
    expect(makeFeeds([image, mask, ids], [], [{ name: "N", value: "500" }], 8)).not.toEqual(feeds);
    const pixels = Array.from(feeds["image"]?.data as Float32Array);
    expect(Math.min(...pixels)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...pixels)).toBeLessThan(1);
    expect(new Set(pixels).size).toBeGreaterThan(900);
    expect(new Set(feeds["mask"]?.data as Uint8Array)).toEqual(new Set([0, 1]));
    expect(Array.from(feeds["ids"]?.data as BigInt64Array).every((id) => id >= 0n && id < 10n)).toBe(true);
  });

  test("integers are not confused with sub-byte types", () => {
    const { data } = makeFeeds([{ name: "x", dtype: "int32", dims: [200] }], [], [], 1)["x"] as Tensor;
    expect(Math.max(...(data as Int32Array))).toBe(9);
    const nibbles = makeFeeds([{ name: "x", dtype: "uint4", dims: [200] }], [], [], 1)["x"] as Tensor;
    expect(Math.max(...(nibbles.data as Uint8Array))).toBe(1);
  });

  test("a file gives its values and the open dims of the others", () => {
    const file = path.join(folder, "image.npy");
    const written = new Tensor("float32", [3, 2], Float32Array.of(1, 2, 3, 4, 5, 6));
    writeTensor(file, written);
    expect(readNpy(fs.readFileSync(file), "image.npy")).toMatchObject({ dtype: "float32", dims: [3, 2] });
    const feeds = makeFeeds([mask, image], [{ name: "image", value: file }], [], 1);
    expect(feeds["image"]).toEqual(written);
    expect(feeds["mask"]?.dims).toEqual([3]);
    expect(makeFeeds([image], [{ name: "image", value: "random" }], [], 1)["image"]?.dims).toEqual([1, 2]);
  });

  test("wrong names and sizes are wrong usage that says what there is", () => {
    expect(() => makeFeeds([image], [{ name: "imgae", value: "random" }], [], 1)).toThrow(/--input imgae: .* it has image/);
    expect(() => makeFeeds([image], [], [{ name: "M", value: "2" }], 1)).toThrow(UsageError);
    expect(() => makeFeeds([image], [], [{ name: "N", value: "x" }], 1)).toThrow(/--dim N=x/);
    expect(() => makeFeeds([image], [{ name: "image", value: path.join(folder, "none.npy") }], [], 1)).toThrow(
      expect.objectContaining({ code: 100003, message: expect.stringContaining("none.npy") }),
    );
  });
});
