/** The parity faces never throw: wrong JavaScript types and counts, and whatever a program throws in the middle of a call, are codes with messages. */
import { acl } from "npurt/acl";
import { rt as rtFace } from "npurt/rt";
import type { Arg } from "../../dist/lib/acl/args";
import { type Call, tableRows } from "../../dist/lib/acl/table";
import { codeOf, finish, ok, start } from "./harness";

const { rt } = acl;
afterEach(finish);

type Run = (...args: unknown[]) => unknown;

function functionOf(name: string): Run {
  const parts = name.startsWith("rt/") ? [name.slice(3)] : name.split(".");
  return parts.reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], name.startsWith("rt/") ? rtFace : acl) as Run;
}

/** A value of the type that is asked for. */
function fitting({ type }: Arg<unknown>): unknown {
  if (type.startsWith("a list")) return [];
  if (type.startsWith("a function")) return () => 0;
  if (type === "a string") return "x";
  if (type === "an object") return {};
  return type.startsWith("a Buffer") ? new Uint8Array(8) : 1;
}

/** What stands in place of a value: a null handle, 0, something empty, or null for a structure. */
function refusal({ returns, none }: Call): unknown {
  if (returns === "ret") return 100000;
  if (returns === "[...values, ret]") return [...(none as unknown[]), 100000];
  return returns === "value" ? none : [none ?? null, 100000];
}

function throws(): never {
  throw new Error("on purpose");
}

test.each(tableRows().map((row) => [row.name, row.call] as const))("%s answers wrong types and counts with 100000 and a message", (name, call) => {
  const run = functionOf(name);
  const label = name.startsWith("rt/") ? name.slice(3) : `acl.${name}`;
  const refuses = (args: unknown[], text: string): void => {
    acl.get_recent_err_msg();
    expect(run(...args)).toEqual(refusal(call));
    expect(rt.get_last_error(0)).toBe(100000);
    const message = acl.get_recent_err_msg() as string;
    expect(message).toContain(label);
    expect(message).toContain(text);
  };
  const least = call.args.filter((one) => !one.optional).length;
  refuses(Array(call.args.length + 1).fill(1), `not ${call.args.length + 1}`);
  if (least > 0) refuses([], "not 0");
  for (const [at, arg] of call.args.entries()) {
    if (arg.type === "any value") continue;
    const args = call.args.map((one, index) => (index === at ? Symbol("wrong") : fitting(one)));
    refuses(args, `argument ${arg.name} must be ${arg.type.startsWith("a list") ? "a list" : arg.type}, not symbol`);
    if (!arg.type.startsWith("a list") || /item any value/.test(arg.type)) continue;
    refuses(
      call.args.map((one, index) => (index === at ? [Symbol("wrong")] : fitting(one))),
      `argument ${arg.name}[] must be `,
    );
  }
});

test("what a program throws in the middle of a call is a code too", () => {
  start();
  ok(rt.set_device(0));
  const hostile = (thrown: unknown) => ({
    get attrs(): never {
      throw thrown;
    },
  });
  const textless = new Proxy({}, { get: throws, getPrototypeOf: throws });
  for (const thrown of [new Error("mine"), Object.create(null), textless, undefined, Symbol("s")]) {
    expect(codeOf(rt.malloc_with_cfg(64, 0, hostile(thrown)))).toBe(500000);
    expect(acl.get_recent_err_msg()).toContain("acl.rt.malloc_with_cfg failed with 500000: unexpected");
  }
  expect(rt.memcpy(textless as never, 1, 1, 1, 4)).toBe(100000);
});
