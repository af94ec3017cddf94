/**
 * Runs models of the bench's catalogue with whatever package is named: `node peer-models.mjs PACKAGE FROM NAME...`, resolved from the folder FROM.
 * Prints JSON: by model, the numbers of each output.
 */
import { createRequire } from "node:module";
import path from "node:path";
import { CATALOG } from "../../bench/model/catalog.mjs";
import { modelFiles } from "../../bench/model/files.mjs";
import { feedData } from "../../bench/runners/serve.mjs";

const [name, from, ...wanted] = process.argv.slice(2);
const { InferenceSession, Tensor } = createRequire(path.join(from, "x.js"))(name);
const files = modelFiles(process.env.NPURT_SUITES);

const declared = ({ inputMetadata }) => inputMetadata.map(({ name: input, type, shape }) => ({ name: input, dtype: type, dims: shape }));

const results = {};
for (const model of wanted) {
  const session = await InferenceSession.create(files.get(model), { logSeverityLevel: 4 });
  const feeds = CATALOG.find(({ file }) => file === model).feeds ?? declared(session);
  const outputs = await session.run(Object.fromEntries(feeds.map((feed) => [feed.name, new Tensor(feed.dtype, feedData(feed), feed.dims)])));
  results[model] = session.outputNames.map((output) => Array.from(outputs[output].data, Number));
  await session.release();
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
