/** The text of the micro module for one build: every function of the seam, with equal names and signatures in all builds. */
import { SCRATCH } from "./builds.mjs";
import { depthwiseSource } from "./depthwise.mjs";
import { Constants } from "./emit.mjs";
import { gemmSource } from "./gemm.mjs";
import { integerSource } from "./integer.mjs";
import { planesSource } from "./planes.mjs";
import { rowsSource } from "./rows.mjs";
import { stripSource } from "./strip.mjs";
import { winogradSource } from "./winograd.mjs";

const bind = (build, constants) => `
/** Bytes of scratch that an instance needs. */
export function scratchBytes(): usize {
  return ${SCRATCH.BYTES};
}

/** Gives this instance its scratch (64-aligned, its own) and writes the constants there. Call once, before anything else. */
export function bind(address: usize): void {
  scratch = address;
  ${constants.stores("address")}
  memory.fill(address + ${SCRATCH.ZEROS}, 0, ${SCRATCH.LIMITS - SCRATCH.ZEROS});
  store<u32>(address, 0x7fc00000, ${SCRATCH.LIMITS + 8});
${build.dot ? "  step = dotIsExact() ? 4 : 2;\n" : ""}}
`;

export function microSource(build) {
  const constants = new Constants();
  const parts = [
    gemmSource(build),
    depthwiseSource(build),
    planesSource(build),
    winogradSource(build, constants),
    stripSource(build, constants),
    rowsSource(build, constants),
    integerSource(build),
  ];
  return `import { StripCode } from "../abi/strip";
import { MicroCode } from "../abi/micro";

/** Base of this instance's scratch: a core-local register. */
let scratch: usize = 0;

${parts.join("\n")}${bind(build, constants)}`;
}
