/** Panels of a matrix that a run computes, packed where they are multiplied. */
import { pack, panelColumns } from "../micro/module";
import { transpose4 } from "./copy";

/** The depth x columns matrix at `source` (bytes between rows and between columns) as panels at `target`, zeros behind the last column. */
export function packPanels(target: usize, source: usize, rowPitch: i32, columnPitch: i32, depth: u32, columns: u32): void {
  if (rowPitch != 4 || columnPitch == 4) {
    pack(source, rowPitch, columnPitch, depth, columns, target);
    return;
  }
  // Dense along k: panels are transposes of their columns.
  const panel = panelColumns();
  for (let at: u32 = 0; at < columns; at += panel) {
    const width = min<u32>(panel, columns - at);
    if (width < panel) memory.fill(target, 0, <usize>(depth * panel) << 2);
    transpose4(target, panel << 2, source + <usize>(<i32>at * columnPitch), columnPitch, depth, width);
    target += <usize>(depth * panel) << 2;
  }
}
