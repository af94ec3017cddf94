/**
 * 8-bit matrices in the order that MATMUL_INTEGER reads: int8 panels [column / panel][k / 4][column][4], zeros behind the last k and the last column, and
 * behind the panels the sum of each column in int32. A uint8 element goes less 128. PACK_INTEGER (asm/kernels/integer.ts) writes the same on the device.
 */
import { ceilDiv } from "./tiles";

/** Values of k that lie side by side. */
const GROUP = 4;

/** Bytes of the panels of a [k, n] matrix, without the sums. */
export const integerPanelBytes = (k: number, n: number, panel: number): number => ceilDiv(n, panel) * panel * ceilDiv(k, GROUP) * GROUP;
/** Bytes of a packed [k, n] matrix. */
export const packedIntegerSize = (k: number, n: number, panel: number): number => integerPanelBytes(k, n, panel) + ceilDiv(n, panel) * panel * 4;

/** Row-major [k, n] or, `transposed`, [n, k] -> panels and sums. */
export function packInteger(b: Int8Array | Uint8Array, k: number, n: number, panel: number, transposed = false): Uint8Array {
  const packed = new Int8Array(packedIntegerSize(k, n, panel));
  const sums = new Int32Array(packed.buffer, integerPanelBytes(k, n, panel), ceilDiv(n, panel) * panel);
  const flip = b instanceof Uint8Array ? 128 : 0;
  const panelBytes = ceilDiv(k, GROUP) * GROUP * panel;
  const [rowStep, columnStep] = transposed ? [1, k] : [n, 1];
  for (let first = 0; first < n; first += panel) {
    const width = Math.min(panel, n - first);
    for (let row = 0; row < k; row++) {
      const to = (first / panel) * panelBytes + (row - (row % GROUP)) * panel + (row % GROUP);
      const from = row * rowStep + first * columnStep;
      for (let column = 0; column < width; column++) {
        const value = b[from + column * columnStep]! - flip;
        packed[to + column * GROUP] = value;
        sums[first + column]! += value;
      }
    }
  }
  return new Uint8Array(packed.buffer);
}
