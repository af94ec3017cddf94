/** A progress bar on stderr that shows up only when work takes more than a second, and never where stderr is not a terminal. */
import type { SingleBar } from "cli-progress";

const SHOW_AFTER_MS = 1000;

export class Progress {
  readonly #label: string;
  readonly #startedAt = performance.now();
  #bar: SingleBar | undefined;

  constructor(label: string) {
    this.#label = label;
  }

  update(done: number, total: number): void {
    if (this.#bar === undefined) {
      if (!process.stderr.isTTY || performance.now() - this.#startedAt < SHOW_AFTER_MS) return;
      // Lazily: most runs end before they need it.
      const { SingleBar, Presets } = require("cli-progress") as typeof import("cli-progress");
      this.#bar = new SingleBar({ format: `${this.#label} |{bar}| {percentage}% ETA {eta_formatted}`, hideCursor: true }, Presets.shades_classic);
      this.#bar.start(total, done);
    }
    this.#bar.setTotal(total);
    this.#bar.update(done);
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}
