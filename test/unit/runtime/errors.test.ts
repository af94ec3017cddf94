/** The error table against the numbers that CANN documents, and the helpers that name what was meant. */
import { AclError } from "npurt";
import { checkInteger, checkOptions, nearestName } from "../../../dist/lib/errors/make";
import { errorEntries, errorEntry } from "../../../dist/lib/errors/table";

const range = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i);
/** From CANN's list of return codes; 107014 and 107013 are the two group codes. */
const DOCUMENTED = [
  ...range(100000, 100045),
  ...range(148046, 148053),
  ...range(200000, 200007),
  300000,
  ...range(500000, 500005),
  ...range(107000, 107045),
  ...range(207000, 207021),
  ...range(507000, 507057),
  ...range(507899, 507916),
  ...[0, 1, 2, 3, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22].map((last) => 145000 + last),
  ...range(245000, 245002),
  ...range(345102, 345104),
  ...range(545000, 545009),
  545601,
  545602,
];

test("every documented code has one entry with name, text code, reason and solution, and there is no other", () => {
  const found = errorEntries().map(({ code }) => code);
  expect([...found].sort((a, b) => a - b)).toEqual([...DOCUMENTED].sort((a, b) => a - b));
  for (const entry of errorEntries()) {
    expect(entry.name).toMatch(/^[A-Z][A-Za-z0-9]+Error$/);
    expect(entry.text).toMatch(/^E[A-Z]?\d{4,5} ./);
    expect(entry.reason).not.toBe("");
    expect(entry.solution).not.toBe("");
  }
  expect(new Set(errorEntries().map(({ name }) => name)).size).toBe(errorEntries().length);
});

test("an error has the words of its code; an unknown code has those of 500000", () => {
  const error = new AclError(507046, "stream 3 is late", { solution: "wait" });
  expect(error).toMatchObject({
    name: "StreamSyncTimeoutError",
    code: 507046,
    text: "EE1002 stream synchronize timed out",
    solution: "wait",
    failures: [],
  });
  expect(error).toBeInstanceOf(Error);
  expect(error.stack).toContain("stream 3 is late");
  expect(errorEntry(42)).toMatchObject({ code: 42, name: "UnknownError" });
});

test("misspelt options name the nearest valid one", () => {
  expect(nearestName("tmeoutMs", ["signal", "timeoutMs"])).toBe("timeoutMs");
  expect(nearestName("x", [])).toBeUndefined();
  expect(() => checkOptions("call", { signl: 1 }, ["signal", "timeoutMs"])).toThrow(
    /call: unknown option "signl"; did you mean "signal"\? Valid: signal, timeoutMs/,
  );
  expect(() => checkOptions("call", null, ["signal"])).toThrow(/not null/);
  expect(() => checkOptions("call", [], ["signal"])).toThrow(AclError);
  checkOptions("call", undefined, []);
  expect(() => checkInteger("call", "n", 1.5, 0, 3)).toThrow(/n is 1.5; pass a whole number from 0 to 3/);
  expect(() => checkInteger("call", "n", 4, 0, 3)).toThrow(AclError);
  checkInteger("call", "n", undefined, 0, 3);
});
