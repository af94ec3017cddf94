/** Whole models: those of the catalogue whose files are there, the digits example, and whatever else is below the folder that `--models` names. */
import { fileURLToPath } from "node:url";
import { makeBert } from "./bert.mjs";
import { CATALOG, GOALS } from "./catalog.mjs";
import { fetchModels, modelFiles } from "./files.mjs";

/** @param note takes a line for each model that the bench knows and cannot find */
export function modelCases(folder, note) {
  makeBert();
  for (const reason of fetchModels()) note(`not fetched: ${reason}`);
  const files = modelFiles(folder);
  const known = CATALOG.filter(({ file }) => files.has(file));
  const missing = CATALOG.filter(({ file }) => !files.has(file)).map(({ file }) => file);
  if (missing.length > 0) note(`models that are not here (--models names a folder to look in): ${missing.join(", ")}`);
  const others = [...files.keys()].filter((name) => !CATALOG.some(({ file }) => file === name));
  const digits = fileURLToPath(new URL("../../examples/digits/digits.onnx", import.meta.url));
  const images = (count) => [{ name: "image", dtype: "float32", dims: [count, 1, 28, 28] }];
  return [
    ...known.map(({ file, ...job }) => ({ ...job, name: file, model: files.get(file), goals: GOALS[job.group] })),
    { name: "digits x1", group: "other", model: digits, feeds: images(1) },
    { name: "digits x64", group: "other", model: digits, feeds: images(64) },
    ...others.map((name) => ({ name, group: "other", model: files.get(name) })),
  ];
}
