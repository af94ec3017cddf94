/** Packs this tree and installs the tarball as a user would: no scripts, no network, dependencies from the ones installed here. */
import { execFileSync, type SpawnSyncReturns, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const root = path.join(__dirname, "../..");
export const npm = (args: readonly string[], cwd: string): string =>
  execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, npm_config_loglevel: "error" } });

export interface Packed {
  readonly tarball: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly size: number }[];
}

/** The tarball of the tree as it is built now; `pack` must not build, other tests read dist/ meanwhile. */
export function pack(folder: string): Packed {
  const [entry] = JSON.parse(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", folder], root)) as (Packed & { filename: string })[];
  return { ...entry!, tarball: path.join(folder, entry!.filename) };
}

/** A folder with the package and what it depends on, nothing else. */
export function install(tarball: string): string {
  // Readable by every user: one test runs as nobody.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-pack-"));
  fs.chmodSync(folder, 0o755);
  fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify({ name: "consumer", private: true }));
  const dependencies = npm(["ls", "--omit=dev", "--all", "--parseable"], root).trim().split("\n").slice(1);
  const specifiers = [tarball, ...dependencies.map((dependency) => `file:${dependency}`)];
  npm(["install", "--offline", "--ignore-scripts", "--install-links", "--no-audit", "--no-fund", "--no-package-lock", ...specifiers], folder);
  return folder;
}

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** User and group to run as. */
  readonly uid?: number;
  /** Another node than this one. */
  readonly node?: string;
}

/** Runs a script in `folder`, with its output. */
export function runNode(folder: string, args: readonly string[], options: RunOptions = {}): SpawnSyncReturns<string> {
  const { uid } = options;
  return spawnSync(options.node ?? process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    timeout: 60_000,
    env: { PATH: process.env["PATH"], ...options.env },
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
}
