/** Whole models: those of the catalogue whose files are there, the digits example, and whatever else is below the folder that `--models` names. */
import { fileURLToPath } from "node:url";
import { makeBert } from "./bert.mjs";
import { CATALOG, GOALS } from "./catalog.mjs";
import { fetchModels, modelFiles } from "./files.mjs";

/** @param wanted which names are asked for: only those are generated, fetched or missed. @param note takes what could not be had */
export function modelCases(folder, wanted, note) {
  const asked = CATALOG.filter(({ file }) => wanted(file));
  const missing = (files) => asked.filter(({ file }) => !files.has(file)).map(({ file }) => file);
  let files = modelFiles(folder);
  if (missing(files).length > 0) {
    makeBert();
    for (const reason of fetchModels()) note(`not fetched: ${reason}`);
    files = modelFiles(folder);
  }
  if (missing(files).length > 0) note(`models that are not here (--models names a folder to look in): ${missing(files).join(", ")}`);
  const known = asked.filter(({ file }) => files.has(file));
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
