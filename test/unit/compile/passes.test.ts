/** What each pass does to small models. */
import * as fc from "fast-check";
import { fuse } from "../../../dist/lib/compile/fuse";
import { overlaps } from "../../../dist/lib/compile/operands";
import { largestLive, place, replay } from "../../../dist/lib/compile/plan";
import { compileModel, passNames, runPipeline } from "../../../dist/lib/compile/pipeline";
import { regionsOf } from "../../../dist/lib/compile/schedule";
import { describe as describeModel } from "../../../dist/lib/compile/describe";
import { tensor } from "../../../dist/lib/graph/tensor";
import { evaluateGraph } from "../../../dist/lib/ops/evaluate";
import type { CompileOptions } from "../../../dist/lib/compile/types";
import type { Instruction } from "../../../dist/lib/program/types";
import { differences } from "../../ops/compare";
import { runOnDevice } from "../../ops/device";
import { type ModelInit, model } from "../../ops/models";

const weights = tensor(
  "float32",
  [2, 1, 3, 3],
  Array.from({ length: 18 }, (_, i) => i - 9),
);
const compile = (init: ModelInit, options: CompileOptions = {}) => runPipeline(model(init), options);
const ops = (state: { regions?: readonly (readonly Instruction[])[] }): string[][] => state.regions!.map((region) => region.map(({ op }) => op));
const image = { name: "x", dims: [1, 1, 6, 6] } as const;

describe("fuse", () => {
  test("bias, activation and residual become the epilogue of a convolution", () => {
    const state = compile({
      nodes: [
        { op: "Conv", inputs: ["x", "w", "b"], outputs: ["c"] },
        { op: "Relu", inputs: ["c"], outputs: ["r"] },
        { op: "Mul", inputs: ["r", "s"], outputs: ["m"] },
        { op: "MaxPool", inputs: ["m"], outputs: ["y"], attributes: { kernel_shape: [2n, 2n] } },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
      constants: { w: weights, b: tensor("float32", [2], [1, 2]), s: tensor("float32", [], [2]) },
    });
    expect(ops(state)).toEqual([["conv"], ["pool"], ["copy"]]);
    const [conv] = state.regions![0]!;
    expect(conv!.op === "conv" && conv!.epilogue!.values.map((value) => (value.kind === "op" ? value.op : value.kind))).toEqual([
      "accumulator",
      "input",
      "add",
      "relu",
      "constant",
      "mul",
    ]);
  });

  test("a chain of elementwise operators is one strip; a value that others read stays", () => {
    const nodes = [
      { op: "Add", inputs: ["x", "x"], outputs: ["a"] },
      { op: "Exp", inputs: ["a"], outputs: ["b"] },
      { op: "Neg", inputs: ["b"], outputs: ["y"] },
    ];
    expect(ops(compile({ nodes, inputs: [image], outputs: [{ name: "y" }] }))).toEqual([["map"]]);
    expect(ops(compile({ nodes, inputs: [image], outputs: [{ name: "y" }, { name: "b" }] }))).toEqual([["map"], ["map"]]);
    expect(ops(compile({ nodes, inputs: [image], outputs: [{ name: "y" }] }, { disable: ["fuse"] }))).toEqual([["map"], ["map"], ["map"]]);
  });

  test("stores that narrow are kept", () => {
    const state = compile({
      nodes: [
        { op: "Cast", inputs: ["x"], outputs: ["a"], attributes: { to: 2n } },
        { op: "Cast", inputs: ["a"], outputs: ["y"], attributes: { to: 1n } },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
    });
    expect(ops(state)).toEqual([["map"], ["map"]]);
  });

  test("a blob that a chain reads twice is counted once afterwards", () => {
    const state = compile({
      nodes: [
        { op: "Exp", inputs: ["x"], outputs: ["a"] },
        { op: "Neg", inputs: ["a"], outputs: ["b"] },
        { op: "Mul", inputs: ["a", "b"], outputs: ["y"] },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
    });
    expect(ops(state)).toEqual([["map"]]);
  });

  test.each([0n, 1n])("what follows a fold is done before it is stored, keepdims %s", (keepdims) => {
    const nodes = [
      { op: "ReduceMean", inputs: ["x"], outputs: ["m"], attributes: { axes: [3n], keepdims } },
      { op: "Add", inputs: ["m", "e"], outputs: ["a"] },
      { op: "Sqrt", inputs: ["a"], outputs: ["b"] },
      { op: "Reciprocal", inputs: ["b"], outputs: ["y"] },
    ];
    const init = { nodes, inputs: [image], outputs: [{ name: "y" }], constants: { e: tensor("float32", [], [1e-3]) }, opset: 13 };
    expect(ops(compile(init))).toEqual([["reduce"]]);
    const x = tensor(
      "float32",
      [1, 1, 6, 6],
      Array.from({ length: 36 }, (_, i) => i / 7),
    );
    const [want] = evaluateGraph(compile(init, { stopAfter: "infer" }).graph, { x });
    for (const disable of [[], ["fuse"]]) {
      expect(differences(runOnDevice(compileModel(model(init), { disable }), { x })[0]!, want!, { relative: 1e-5, absolute: 1e-6 })).toEqual([]);
    }
  });

  test("positions are not what a strip of floats works on", () => {
    const nodes = [
      { op: "ArgMax", inputs: ["x"], outputs: ["m"], attributes: { axis: 3n } },
      { op: "Neg", inputs: ["m"], outputs: ["y"] },
    ];
    expect(ops(compile({ nodes, inputs: [image], outputs: [{ name: "y" }] }))).toEqual([["reduce"], ["map"]]);
  });

  test("nothing to do gives the same list", () => expect(fuse([])).toEqual([]));
});

describe("views", () => {
  test("reshape, transpose, slice, split, expand and squeeze move nothing", () => {
    const state = compile({
      nodes: [
        { op: "Reshape", inputs: ["x", "six"], outputs: ["a"] },
        { op: "Transpose", inputs: ["a"], outputs: ["b"], attributes: { perm: [2n, 0n, 1n] } },
        { op: "Split", inputs: ["b"], outputs: ["c", "d"], attributes: { axis: 0n } },
        { op: "Unsqueeze", inputs: ["d", "zero"], outputs: ["e"] },
        { op: "Add", inputs: ["c", "e"], outputs: ["y"] },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
      constants: { six: tensor("int64", [3], [2, 3, 6]), zero: tensor("int64", [1], [0]) },
    });
    expect(ops(state)).toEqual([["map"]]);
  });

  test("shape arithmetic leaves no instruction", () => {
    const state = compile({
      nodes: [
        { op: "Shape", inputs: ["x"], outputs: ["s"] },
        { op: "Gather", inputs: ["s", "zero"], outputs: ["n"] },
        { op: "Concat", inputs: ["n", "rest"], outputs: ["t"], attributes: { axis: 0n } },
        { op: "Reshape", inputs: ["x", "t"], outputs: ["r"] },
        { op: "Relu", inputs: ["r"], outputs: ["y"] },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
      constants: { zero: tensor("int64", [1], [0]), rest: tensor("int64", [1], [-1]) },
    });
    expect(ops(state)).toEqual([["map"]]);
    expect(state.graph.outputs[0]!.dims).toEqual([1, 36]);
  });

  test("nodes that no output needs are gone", () => {
    const init: ModelInit = {
      nodes: [
        { op: "Exp", inputs: ["x"], outputs: ["unused"] },
        { op: "Neg", inputs: ["x"], outputs: ["y"] },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
    };
    expect(compile(init).graph.nodes.map(({ op }) => op)).toEqual(["Neg"]);
    expect(compile(init, { disable: ["dead"] }).graph.nodes.length).toBe(2);
  });
});

describe("schedule", () => {
  test("independent work shares a region, dependent work does not", () => {
    const state = compile({
      nodes: [
        { op: "MaxPool", inputs: ["x"], outputs: ["a"], attributes: { kernel_shape: [2n, 2n] } },
        { op: "AveragePool", inputs: ["x"], outputs: ["b"], attributes: { kernel_shape: [2n, 2n] } },
        { op: "MatMul", inputs: ["a", "b"], outputs: ["y"] },
      ],
      inputs: [image],
      outputs: [{ name: "y" }],
    });
    expect(ops(state).slice(0, 2)).toEqual([["pool", "pool"], expect.arrayContaining(["matmul"])]);
  });

  test("the parts of a Concat share a region on any axis", () => {
    for (const axis of [0n, 1n, 2n]) {
      const state = compile({
        nodes: [{ op: "Concat", inputs: ["x", "z", "x"], outputs: ["y"], attributes: { axis } }],
        inputs: [
          { name: "x", dims: [2, 3, 4] },
          { name: "z", dims: [2, 3, 4] },
        ],
        outputs: [{ name: "y" }],
      });
      expect(ops(state)).toEqual([["copy", "copy", "copy"]]);
    }
  });

  test("views of one blob overlap whenever they share an element", () => {
    const blob = { id: 0, name: "b", binding: "arena" as const, sizeBytes: 4096 };
    const part = fc.record({
      start: fc.tuple(fc.nat(3), fc.nat(3), fc.nat(3)),
      dims: fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 })),
      step: fc.integer({ min: 1, max: 2 }),
    });
    const strides = [256, 32, 4];
    const made = fc.constantFrom([0, 1, 2], [2, 1, 0], [1, 2, 0]);
    fc.assert(
      fc.property(part, part, made, (a, b, order) => {
        const view = ({ start, dims, step }: typeof a) => {
          const own = order.map((axis) => strides[axis]! * (axis === 2 ? step : 1));
          return {
            blob,
            dtype: "float32" as const,
            offsetBytes: start.reduce((sum, at, i) => sum + at * strides[i]!, 0),
            dims: order.map((axis) => dims[axis]!),
            strides: own,
          };
        };
        const bytes = (v: ReturnType<typeof view>): Set<number> => {
          let all = [v.offsetBytes];
          v.dims.forEach((dim, axis) => (all = all.flatMap((at) => Array.from({ length: dim }, (_, i) => at + i * v.strides[axis]!))));
          return new Set(all);
        };
        const [one, other] = [view(a), view(b)];
        const second = bytes(other);
        // It may be careful, never careless.
        if ([...bytes(one)].some((at) => second.has(at))) {
          expect(overlaps(one, other)).toBe(true);
        }
      }),
    );
  });

  test("no two instructions of a region touch the same bytes unless both only read", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(5), fc.nat(5)), { maxLength: 30 }), (pairs) => {
        const blobs = Array.from({ length: 6 }, (_, id) => ({ id, name: `b${id}`, binding: "arena" as const, sizeBytes: 4 }));
        const view = (i: number) => ({ blob: blobs[i]!, dtype: "float32" as const, offsetBytes: 0, dims: [1], strides: [4] });
        const list = pairs.map(([target, source], i): Instruction => ({ op: "copy", target: view(target), source: view(source), node: `n${i}` }));
        const regions = regionsOf(list);
        expect(regions.flat()).toEqual(list);
        for (const region of regions) {
          const written = region.map((each) => (each.op === "copy" ? each.target.blob : undefined));
          const read = region.map((each) => (each.op === "copy" ? each.source.blob : undefined));
          expect(new Set(written).size).toBe(written.length);
          // An instruction may read what it writes itself; another one may not.
          expect(region.every((_, i) => written.every((blob, j) => i === j || blob !== read[i]))).toBe(true);
        }
      }),
    );
  });
});

describe("plan", () => {
  const lifetime = fc
    .record({ sizeBytes: fc.integer({ min: 0, max: 5000 }), first: fc.nat(40), length: fc.nat(12) })
    .map(({ length, ...life }) => ({ ...life, last: life.first + length }));

  test("placements never overlap while both live, and never beat the largest live set", () => {
    fc.assert(
      fc.property(fc.array(lifetime, { maxLength: 60 }), (lives) => {
        const offsets = place(lives);
        const placed = lives.map((life, i) => ({ ...life, offsetBytes: offsets[i]! }));
        replay(placed);
        for (const [i, a] of placed.entries()) {
          expect(a.offsetBytes % 64).toBe(0);
          for (const b of placed.slice(i + 1)) {
            const together = a.first <= b.last && b.first <= a.last;
            expect(together && a.offsetBytes < b.offsetBytes + b.sizeBytes && b.offsetBytes < a.offsetBytes + a.sizeBytes).toBe(false);
          }
        }
        const end = placed.reduce((most, { offsetBytes, sizeBytes }) => Math.max(most, offsetBytes + Math.ceil(sizeBytes / 64) * 64), 0);
        expect(end).toBeGreaterThanOrEqual(largestLive(lives));
        expect(end).toBeLessThanOrEqual(lives.reduce((total, { sizeBytes }) => total + Math.ceil(sizeBytes / 64) * 64, 0));
      }),
    );
  });

  test("the replay sees an overlap", () => {
    expect(() =>
      replay([
        { sizeBytes: 64, first: 0, last: 3, offsetBytes: 0 },
        { sizeBytes: 64, first: 3, last: 4, offsetBytes: 63 },
      ]),
    ).toThrow(/live twice in region 3/);
  });

  test("a chain needs its two largest neighbours, and elementwise work happens in place", () => {
    const pool = { kernel_shape: [2n, 2n] };
    const state = compile(
      {
        nodes: [
          { op: "MaxPool", inputs: ["x"], outputs: ["a"], attributes: pool },
          { op: "Exp", inputs: ["a"], outputs: ["b"] },
          { op: "MaxPool", inputs: ["b"], outputs: ["c"], attributes: pool },
          { op: "MaxPool", inputs: ["c"], outputs: ["d"], attributes: pool },
          { op: "Reshape", inputs: ["d", "flat"], outputs: ["e"] },
          { op: "Neg", inputs: ["e"], outputs: ["y"] },
        ],
        inputs: [{ name: "x", dims: [1, 4, 16, 16] }],
        outputs: [{ name: "y" }],
        constants: { flat: tensor("int64", [1], [-1]) },
      },
      { disable: ["fuse"] },
    );
    expect(state.plan!.placements.map(({ blobs }) => blobs.map(({ name }) => name))).toContainEqual(["a", "b"]);
    expect(state.plan!.arenaBytes).toBe(state.plan!.largestLiveBytes);
  });
});

describe("pipeline", () => {
  const init: ModelInit = { nodes: [{ op: "Neg", inputs: ["x"], outputs: ["y"] }], inputs: [image], outputs: [{ name: "y" }] };
  test("stops after any pass", () => {
    for (const stopAfter of passNames()) {
      expect(describeModel(model(init), { stopAfter }).graph).toMatch(/node "Neg_0"/);
    }
    expect(describeModel(model(init), { stopAfter: "infer" }).regions).toBeUndefined();
    expect(describeModel(model(init)).regions).toMatch(/map y float32\[1,1,6,6\] = neg\(x\)/);
  });
  test("refuses pass names that do not exist or cannot be left out", () => {
    expect(() => compileModel(model(init), { stopAfter: "optimise" })).toThrow(/no pass "optimise"; passes are bind, infer/);
    expect(() => compileModel(model(init), { disable: ["lower"] })).toThrow(/cannot be left out/);
    expect(() => compileModel(model(init), { stopAfter: "lower" })).toThrow(/leaves no program/);
  });
  test("an input that is an output, an output twice, a constant output", () => {
    const state = compile({
      nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
      inputs: [image],
      outputs: [{ name: "x" }, { name: "y" }, { name: "y" }, { name: "k" }],
      constants: { k: tensor("int64", [1], [5]) },
    });
    expect(ops(state)).toEqual([["copy", "copy", "copy", "copy"]]);
  });
});
