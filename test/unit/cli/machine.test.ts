import { type Machine, machine, warnings } from "../../../dist/lib/cli/machine";
import { wasmFeatures } from "../../../dist/lib/cli/wasm-features";

describe("machine", () => {
  test("knows this process", () => {
    const facts = machine();
    expect(facts.node).toBe(process.versions.node);
    expect(facts.cpu.available).toBeGreaterThanOrEqual(1);
    // This package needs both to run at all, so here they are on.
    expect(wasmFeatures()).toMatchObject({ simd: true, threads: true, bulkMemory: true });
  });

  test("warns of what it can name a remedy for, and of nothing on a good machine", () => {
    const good: Machine = {
      ...machine(),
      node: "24.1.0",
      nodeFlags: [],
      cpu: { model: "x", count: 8, available: 8, allowed: 8, quota: undefined, cores: 8 },
      memory: { totalBytes: 2 ** 35, limitBytes: undefined, hugePages: "madvise" },
      wasm: { simd: true, threads: true, bulkMemory: true, relaxedSimd: true, memory64: true },
      addon: { loaded: true, why: "" },
    };
    expect(warnings(good)).toEqual([]);
    expect(warnings({ ...good, cpu: { ...good.cpu, quota: 1.5, cores: 1 } })).toEqual([
      expect.stringMatching(/1\.5 CPUs of time where 8 .* gets 1 of them/),
    ]);
    expect(warnings({ ...good, memory: { ...good.memory, limitBytes: 2 ** 29 } })).toEqual([expect.stringMatching(/512 MiB .* memoryBytes/)]);
    expect(warnings({ ...good, addon: { loaded: false, why: "switched off" } })).toEqual([expect.stringMatching(/no addon \(switched off\)/)]);
    expect(warnings({ ...good, nodeFlags: ["--inspect=9229"] })).toHaveLength(1);
    expect(warnings({ ...good, wasm: { ...good.wasm, simd: false } })).toEqual([expect.stringMatching(/cannot run/)]);
  });
});
