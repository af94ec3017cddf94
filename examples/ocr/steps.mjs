/** A bar on stderr for work of several steps: only on a terminal, and only if it takes longer than a second. */
import { createRequire } from "node:module";

const SHOW_AFTER_MS = 1000;

/** `progress(promise)` counts a step when it settles and returns the promise; `progress.stop()` clears the bar. */
export function steps(label, total) {
  let done = 0;
  let bar;
  const show = () => {
    const { SingleBar, Presets } = createRequire(import.meta.url)("cli-progress");
    bar = new SingleBar({ format: `${label} |{bar}| {value} of {total} steps`, clearOnComplete: true, hideCursor: true }, Presets.shades_classic);
    bar.start(total, done);
  };
  const timer = process.stderr.isTTY ? setTimeout(show, SHOW_AFTER_MS) : undefined;
  const progress = (promise) =>
    promise.finally(() => {
      done++;
      bar?.update(done);
    });
  progress.stop = () => {
    clearTimeout(timer);
    bar?.stop();
  };
  return progress;
}
