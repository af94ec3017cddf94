/** `npurt doctor`: facts of the machine, warnings, and a device that is really opened. */
import { type Machine, machine, warnings } from "./machine";
import { formatBytes, print, printJson, table } from "./output";

export async function doctor({ json }: { json?: boolean }): Promise<void> {
  const facts = machine();
  const found = warnings(facts);
  if (json) {
    printJson({ ...facts, warnings: found });
    return;
  }
  print(table(rows(facts), ""));
  print("");
  for (const warning of found) print(`warning: ${warning}`);
}

function rows(facts: Machine): string[][] {
  const { cpu, memory, wasm, addon } = facts;
  const on = Object.entries(wasm).filter(([, has]) => has);
  const off = Object.entries(wasm).filter(([, has]) => !has);
  return [
    ["npurt", facts.npurt],
    ["node", `${facts.node} (V8 ${facts.v8})${facts.nodeFlags.length > 0 ? ` ${facts.nodeFlags.join(" ")}` : ""}`],
    ["platform", facts.platform],
    ["cpu", `${cpu.count} x ${cpu.model}`],
    ["cpus for npurt", `${cpu.available} available, ${cpu.allowed ?? "?"} allowed by cpuset, quota ${cpu.quota ?? "none"}: ${cpu.cores} cores`],
    ["memory", `${formatBytes(memory.totalBytes)}, limit ${memory.limitBytes === undefined ? "none" : formatBytes(memory.limitBytes)}`],
    ["huge pages", memory.hugePages ?? "unknown"],
    ["wasm", `${on.map(([name]) => name).join(", ")}${off.length > 0 ? ` (not: ${off.map(([name]) => name).join(", ")})` : ""}`],
    ["addon", addon.loaded ? "loaded" : `not loaded: ${addon.why}`],
  ];
}
