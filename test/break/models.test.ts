/** The example's model, damaged at random: a typed error or a model that compiles, always in bounded time. */
import fs from "node:fs";
import { AclError } from "../../dist/lib/errors/acl-error";
import { compileModel } from "../../dist/lib/compile/pipeline";

const good = new Uint8Array(fs.readFileSync("examples/digits/digits.onnx"));
const shapes = { image: [1, 1, 28, 28] };

/** Milliseconds that it took; throws what is no AclError, and our own "this cannot happen". */
function tryModel(bytes: Uint8Array): number {
  const since = performance.now();
  try {
    compileModel(bytes, { shapes });
  } catch (error) {
    if (!(error instanceof AclError) || error.code === 507000) {
      throw error;
    }
  }
  return performance.now() - since;
}

test("bytes changed at random", () => {
  let state = 12345;
  const below = (limit: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  expect(tryModel(good)).toBeGreaterThan(0);
  let worstMs = 0;
  for (let round = 0; round < 300; round++) {
    const bytes = good.slice();
    for (let change = 0; change <= below(3); change++) {
      // The graph's own fields stand at the ends of the file; between them are weights.
      const at = below(2) === 0 ? below(3000) : good.length - 1 - below(6000);
      bytes[at] = [below(256), 0xff, 0x7f, 0x80][below(4)]!;
    }
    worstMs = Math.max(worstMs, tryModel(bytes));
  }
  expect(worstMs).toBeLessThan(5000);
});
