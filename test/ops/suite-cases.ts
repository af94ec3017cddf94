/** Which cases of the ONNX suite we take, and which inputs have to be known when a model is compiled. */
import type { AnyOp } from "../../dist/lib/ops/define";
import { allOps } from "../../dist/lib/ops/registry";
import { operatorsOf, suiteNames } from "./suite";

const byName = new Map<string, AnyOp>(allOps().map((op) => [op.names.onnx![0], op]));
const RECURRENT = [1, 2, 3, 4, 7];
const WEIGHTS = new Map([
  ["QLinearConv", [3, 5]],
  ["CausalConvWithState", [1]],
  ["LSTM", RECURRENT],
  ["GRU", RECURRENT],
  ["RNN", RECURRENT],
]);

/** Inputs that the compiler needs as numbers become initializers. */
export function isConstant(operator: string, position: number): boolean {
  const op = byName.get(operator);
  if (op?.staged) {
    return true;
  }
  const name = op?.inputs[position]?.replace("?", "");
  return WEIGHTS.get(operator)?.includes(position) || (name !== undefined && (op?.needs?.includes(name) ?? false));
}

/** Cases of our operators that are refused on purpose, and why. */
const REFUSED: readonly [pattern: RegExp, why: string][] = [
  [/^test_batchnorm.*training|^test_training_dropout/, "training mode"],
  [/^test_center_crop_pad_.*expanded/, "shapes computed from an input's numbers"],
  [/^test_range_.*expanded|window_expanded$/, "shapes and loops computed from an input's numbers"],
  [/^test_cast.*(STRING|BFLOAT16)/i, "element types without arithmetic yet"],
  [/_bfloat16|string|optional|seq/i, "element types without arithmetic yet"],
];

/** Every case made of our operators alone, without those that are refused. */
export function deviceCases(): string[] {
  return suiteNames().filter((name) => !REFUSED.some(([pattern]) => pattern.test(name)) && operatorsOf(name).every((op) => byName.has(op)));
}
