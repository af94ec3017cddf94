#!/usr/bin/env node
/** `npm run demo [-- --json]`: reads the text in a picture, then classifies hand-written digits. Each act is an example that also runs by itself. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const ACTS = { ocr: "ocr/ocr.mjs", digits: "digits/demo.mjs" };
const json = process.argv.includes("--json");

/** Ends with the exit code of the act and, with --json, what it printed. */
function play(script) {
  return new Promise((resolve, reject) => {
    const args = [fileURLToPath(new URL(script, import.meta.url)), ...(json ? ["--json"] : [])];
    const child = spawn(process.execPath, args, { stdio: ["ignore", json ? "pipe" : "inherit", "inherit"] });
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (text) => (output += text));
    child.once("error", reject);
    child.once("close", (code, signal) => (signal ? reject(new Error(`${script} was ended by ${signal}`)) : resolve({ code, output })));
  });
}

const results = {};
for (const [name, script] of Object.entries(ACTS)) {
  if (!json) console.log(`${name === "ocr" ? "" : "\n"}--- examples/${script} ---`);
  const { code, output } = await play(script);
  if (code !== 0) process.exitCode = code;
  if (json) results[name] = output === "" ? null : JSON.parse(output);
}
if (json) console.log(JSON.stringify(results));
