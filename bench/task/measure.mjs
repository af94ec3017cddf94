/** Measures one thing of the task suite in this process and prints [{case, value, unit?}]; values are ms unless a unit says otherwise. */
import { MEASURES } from "./measures.mjs";

const [, , name, threads] = process.argv;
const answers = await MEASURES[name](Number(threads));
process.stdout.write(JSON.stringify(answers));
