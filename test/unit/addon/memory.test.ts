/** Files and pages, each with the addon and with its fallback: both must leave the same bytes. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

type Loader = typeof import("../../../dist/lib/host/addon");
type Pages = typeof import("../../../dist/lib/host/pages");
type Files = typeof import("../../../dist/lib/host/file");

/** The three modules as a process sees them that started with NPURT_ADDON=`flag`. */
function load(flag: "0" | "1"): { addon: Loader; pages: Pages; files: Files } {
  const before = process.env["NPURT_ADDON"];
  process.env["NPURT_ADDON"] = flag;
  try {
    let modules: { addon: Loader; pages: Pages; files: Files } | undefined;
    jest.isolateModules(() => {
      const addon = require("../../../dist/lib/host/addon") as Loader;
      addon.loadAddon();
      modules = { addon, pages: require("../../../dist/lib/host/pages") as Pages, files: require("../../../dist/lib/host/file") as Files };
    });
    return modules!;
  } finally {
    if (before === undefined) delete process.env["NPURT_ADDON"];
    else process.env["NPURT_ADDON"] = before;
  }
}

const PAGE = 65536;
function sharedMemory(pages: number): Uint8Array {
  return new Uint8Array(new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true }).buffer);
}
/** Bytes that are all different in a window of 251. */
function pattern(size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, i) => (i * 7 + 3) % 251);
}
function fileOf(bytes: Uint8Array): { fd: number; close(): void } {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "npurt-file-")), "data");
  fs.writeFileSync(file, bytes);
  const fd = fs.openSync(file, "r");
  return { fd, close: () => fs.closeSync(fd) };
}

test("NPURT_ADDON=0 switches the addon off and says why", () => {
  const { addon } = load("0");
  expect(addon.loadAddon()).toBeUndefined();
  expect(addon.addonAbsence()).toMatch(/NPURT_ADDON=0/);
});

describe.each(["0", "1"] as const)("NPURT_ADDON=%s", (flag) => {
  const { addon, pages, files } = load(flag);
  if (flag === "1" && addon.loadAddon() === undefined) {
    test.skip(`no addon here: ${addon.addonAbsence()}`, () => {});
    return;
  }

  test("readInto fills exactly its view of shared memory", async () => {
    const memory = sharedMemory(4);
    memory.fill(0xee);
    const bytes = pattern(100_000);
    const file = fileOf(bytes);
    try {
      expect(await files.readInto(file.fd, memory.subarray(1000, 1000 + 70_001), 12_345)).toBe(70_001);
    } finally {
      file.close();
    }
    expect(Buffer.compare(memory.subarray(1000, 71_001), bytes.subarray(12_345, 82_346))).toBe(0);
    expect(memory[999]).toBe(0xee);
    expect(memory[71_001]).toBe(0xee);
  });

  test("readInto stops at the end of the file", async () => {
    const memory = sharedMemory(1);
    const file = fileOf(pattern(500));
    try {
      expect(await files.readInto(file.fd, memory.subarray(0, 1000), 100)).toBe(400);
      expect(await files.readInto(file.fd, memory.subarray(0, 1000), 500)).toBe(0);
      expect(await files.readInto(file.fd, memory.subarray(0, 0), 0)).toBe(0);
    } finally {
      file.close();
    }
    expect(Buffer.compare(memory.subarray(0, 400), pattern(500).subarray(100))).toBe(0);
  });

  test("readInto of a closed descriptor is an EBADF of kind system error", async () => {
    await expect(files.readInto(2 ** 30, sharedMemory(1), 0)).rejects.toMatchObject({ code: "EBADF", syscall: "read" });
  });

  test("many reads at once land where they belong", async () => {
    const memory = sharedMemory(16);
    const bytes = pattern(memory.length);
    const file = fileOf(bytes);
    const piece = memory.length / 64;
    try {
      const starts = Array.from({ length: 64 }, (_, i) => i * piece);
      await Promise.all(starts.map((start) => files.readInto(file.fd, memory.subarray(start, start + piece), start)));
    } finally {
      file.close();
    }
    expect(Buffer.compare(memory, bytes)).toBe(0);
  });

  test.each([
    [0, 8 * PAGE],
    [1, 3 * PAGE],
    [100, 3000],
    [4095, 2],
    [4096, 4096],
    [5000, 0],
  ])("wipe from %d over %d bytes zeroes these and no others", (start, size) => {
    const memory = sharedMemory(8);
    memory.fill(0xaa);
    pages.wipe(memory.subarray(start, start + size));
    const expected = new Uint8Array(memory.length).fill(0xaa);
    expected.fill(0, start, start + size);
    expect(Buffer.compare(memory, expected)).toBe(0);
  });

  test("allowHugePages answers and changes no byte", () => {
    const memory = sharedMemory(64);
    memory.set(pattern(1000));
    expect(typeof pages.allowHugePages(memory)).toBe("boolean");
    expect(Buffer.compare(memory.subarray(0, 1000), pattern(1000))).toBe(0);
  });
});

test("wiped pages leave the resident set", () => {
  const { addon, pages } = load("1");
  if (addon.loadAddon() === undefined || process.platform !== "linux") return;
  const memory = sharedMemory(1024); // 64 MiB
  memory.fill(1);
  const before = process.memoryUsage.rss();
  expect(pages.wipe(memory)).toBe(memory.length);
  expect(before - process.memoryUsage.rss()).toBeGreaterThan(50 * 2 ** 20);
});
