/** The registry's list of families against what their files define: the list decides which file a node loads. */
import { FAMILIES } from "../../dist/lib/ops/registry";

interface Op {
  readonly names: { readonly onnx?: readonly [name: string, newest: number, domain?: string] };
}
const isOp = (value: unknown): value is Op =>
  typeof value === "object" && value !== null && "infer" in value && ("lower" in value || "expand" in value);

test.each(FAMILIES.map((family) => [family.names[0] as string, family] as const))(
  "the family of %s has the operators that the list says",
  (_, family) => {
    const defined = Object.values(family.load()).flatMap((value) => {
      const onnx = isOp(value) ? value.names.onnx : undefined;
      return onnx ? [onnx[2] ? `${onnx[2]}:${onnx[0]}` : onnx[0]] : [];
    });
    expect([...family.names].sort()).toEqual(defined.sort());
  },
);

test("no operator is in two families", () => {
  const names = FAMILIES.flatMap((family) => family.names);
  expect(names.length).toBeGreaterThan(60);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
