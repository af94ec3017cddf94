/** A run with fixed buffers: its inputs and outputs are views of device memory, so nothing is copied. Launch it on any stream, as often as wanted. */
import "./symbols";
import { invalidHandle } from "../errors/make";
import { checkMade, coreOf, make, isObject, noHandle } from "./internals";
import type { Frame } from "./frame";
import type { Model } from "./model";
import type { TensorData } from "./tensor";

export class PreparedRun {
  readonly #frame: Frame;
  readonly #model: Model;
  #live = true;
  /** Write here before `stream.launch`. */
  readonly inputs: Readonly<Record<string, TensorData>>;
  /** Read here after `stream.synchronize`. */
  readonly outputs: Readonly<Record<string, TensorData>>;

  static {
    make.prepared = (model, frame) => new PreparedRun(model, frame);
    coreOf.prepared = (handle) => {
      if (!isObject(handle) || !(#frame in handle)) {
        throw noHandle("a PreparedRun", handle);
      }
      return handle.#use();
    };
  }

  private constructor(model: Model, frame: Frame) {
    checkMade(isObject(frame?.variant), "PreparedRun", "executor.prepare()");
    this.#model = model;
    this.#frame = frame;
    const { inputs, outputs } = frame.variant.program;
    this.inputs = Object.fromEntries(inputs.map((port, i) => [port.name, frame.inputs[i]!]));
    this.outputs = Object.fromEntries(outputs.map((port, i) => [port.name, frame.outputs[i]!]));
    model.device.machine.exposed = true;
    model.hold();
  }

  #use(): Frame {
    if (!this.#live) {
      throw invalidHandle("stream.launch: the prepared run was disposed; prepare another");
    }
    return this.#frame;
  }

  /** Gives the buffers back when the latest launch has run; a second call does nothing. */
  dispose(): void {
    if (!this.#live) {
      return;
    }
    this.#live = false;
    const { machine } = this.#model.device;
    if (machine.lost === undefined) {
      const done = (): void => {
        if (machine.lost === undefined) {
          this.#frame.variant.giveUp(this.#frame);
          this.#model.drop();
        }
      };
      if (machine.core.fence(this.#frame.ranOn.index) >= this.#frame.sequence) {
        done();
      } else {
        machine.whenReached(this.#frame.ranOn.index, this.#frame.sequence, done);
      }
    }
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
