/**
 * A model in stages: programs for the device, and between them what no program can hold, on the host: results whose size depends on numbers (NonZero,
 * NonMaxSuppression), strings, sequences and optionals, and loops around those. Each run of device nodes becomes a model of its own, which is compiled when
 * its inputs are there and kept for the next run.
 */
import type { ValueInfo } from "../compile/types";
import type { inferNode, upgrade } from "../compile/infer";
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import type { Node } from "../graph/ir";
import type { importOnnx } from "../import/onnx/model";
import type { findOp, requireOps } from "../ops/registry";
import type { LoadOptions } from "../runtime/executor";
import type { Tensor } from "../runtime/tensor";
import type { LoadedModel } from "./loaded";
import { allNodes, assemble, parseModel, readBy, type RawGraph, type RawInfo, type RawModel, type RawNode } from "./raw-model";
import { type HostValue, isTensor, join, scalar, SEQUENCE_OPS, tensorOf } from "./sequences";
import { ALSO_STRINGS, type AnyTensor, givesStrings, importAny, isStringData, opKey, STRING_OPS } from "./strings";
import { isStrings, runtimeTensor } from "./storage";

/** Only models in stages need these. */
const compiler = () => require("../compile/infer") as { inferNode: typeof inferNode; upgrade: typeof upgrade };
const registry = () => require("../ops/registry") as { findOp: typeof findOp; requireOps: typeof requireOps };
const importer = () => require("../import/onnx/model") as { importOnnx: typeof importOnnx };
const loaded = () => require("./loaded") as { LoadedModel: typeof LoadedModel };

const CONTROL: ReadonlySet<string> = new Set(["If", "Loop", "Scan", "SequenceMap"]);

const GIVES_LISTS: ReadonlySet<string> = new Set([
  ...["SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence", "SequenceMap", "Optional"],
]);

function isStaged(node: RawNode): boolean {
  if (STRING_OPS.has(opKey(node))) {
    return true;
  }
  if (node.domain !== "") {
    return false;
  }
  if (SEQUENCE_OPS.has(node.op) || node.op === "SequenceMap") {
    return true;
  }
  const op = registry().findOp({ op: node.op, domain: "" } as Node);
  return op?.staged === true || [...node.graphs.values()].some((graph) => graph.nodes.some(isStaged));
}

/** Values by name; what is not here is looked up around. */
class Scope {
  readonly #values = new Map<string, HostValue>();
  constructor(private readonly around?: Scope) {}

  get(name: string): HostValue | undefined {
    return this.#values.has(name) ? this.#values.get(name) : this.around?.get(name);
  }
  set(name: string, value: HostValue): void {
    this.#values.set(name, value);
  }
}

interface Context {
  readonly model: RawModel;
  readonly folder: string | undefined;
  readonly options: LoadOptions;
}

/** Device nodes that follow each other: a model for each set of types that its inputs have had. */
class Segment {
  readonly #models = new Map<string, LoadedModel>();
  readonly #reads: readonly string[];

  constructor(
    private readonly context: Context,
    readonly nodes: readonly RawNode[],
    private readonly outputs: readonly string[],
    private readonly initializers: ReadonlyMap<string, Uint8Array>,
  ) {
    const own = new Set(nodes.flatMap((node) => node.outputs));
    this.#reads = [...new Set(nodes.flatMap(readBy))].filter((name) => !own.has(name));
  }

  async run(scope: Scope, signal: AbortSignal | undefined): Promise<void> {
    const feeds: Record<string, Tensor> = {};
    for (const name of this.#reads.filter((each) => !this.initializers.has(each))) {
      feeds[name] = tensorOf(scope.get(name), this.nodes.find((node) => readBy(node).includes(name))!);
    }
    const model = await this.#modelFor(feeds);
    const results = await model.run(feeds, signal === undefined ? undefined : { signal });
    for (const [name, value] of Object.entries(results)) {
      scope.set(name, value);
    }
  }

  async #modelFor(feeds: Readonly<Record<string, Tensor>>): Promise<LoadedModel> {
    const key = Object.entries(feeds)
      .map(([name, { dtype, dims }]) => `${name}:${dtype}:${dims.length}`)
      .join();
    const known = this.#models.get(key);
    if (known) {
      return known;
    }
    const ports = Object.entries(feeds).map(([name, { dtype, dims }]) => ({ name, dtype, dims: dims.map((_, axis) => `${name}.${axis}`) }));
    const held = this.#reads.flatMap((name) => this.initializers.get(name) ?? []);
    const bytes = assemble(this.context.model, this.nodes, held, ports, this.outputs);
    const { options, folder } = this.context;
    const complete = { ...options, ...(folder === undefined ? {} : { folder }) };
    const model = ports.length === 0 ? await loaded().LoadedModel.load(bytes, complete) : loaded().LoadedModel.deferred(bytes, ports, complete);
    this.#models.set(key, model);
    return model;
  }

  dispose(): void {
    for (const model of this.#models.values()) {
      model.dispose();
    }
    this.#models.clear();
  }
}

/** A graph as a list of segments and host nodes, in order. */
class StagedGraph {
  readonly #steps: (Segment | RawNode)[] = [];
  readonly #bodies = new Map<RawGraph, StagedGraph>();

  constructor(
    private readonly context: Context,
    readonly graph: RawGraph,
    private readonly initializers: ReadonlyMap<string, Uint8Array>,
    /** Names around this graph that are no tensors, and those that are tensors of strings. */
    around: ReadonlySet<string>,
    textsAround: ReadonlySet<string>,
  ) {
    const lists = new Set([...around, ...graph.inputs.flatMap(({ kind, name }) => (kind === "tensor" ? [] : [name]))]);
    const unknown = new Set<string>();
    const texts = new Set([...textsAround, ...graph.inputs.flatMap(({ dtype, name }) => (dtype === "string" ? [name] : []))]);
    for (const [name, bytes] of graph.initializers) {
      isStringData(bytes) && texts.add(name);
    }
    let open: RawNode[] = [];
    const close = (rest: readonly RawNode[]): void => {
      if (open.length > 0) {
        const read = new Set([...rest.flatMap(readBy), ...graph.outputs.map(({ name }) => name)]);
        const outputs = open.flatMap((node) => node.outputs).filter((name) => name !== "" && read.has(name));
        this.#steps.push(new Segment(context, open, outputs, initializers));
      }
      open = [];
    };
    graph.nodes.forEach((node, index) => {
      const reads = readBy(node);
      const passesOn = node.op === "Identity" || CONTROL.has(node.op);
      const takesList = reads.some((name) => lists.has(name));
      const takesText = reads.some((name) => texts.has(name));
      if (takesText && !isStaged(node) && !ALSO_STRINGS.has(opKey(node)) && !CONTROL.has(node.op)) {
        const { name } = node;
        throw new AclError(
          100024,
          `node "${name}" (${node.op}) takes strings, which this operator does not have here; turn them into numbers before it`,
          {
            node: name,
          },
        );
      }
      if (!isStaged(node) && !takesList && !takesText && !(passesOn && reads.some((name) => unknown.has(name)))) {
        open.push(node);
        return;
      }
      close(graph.nodes.slice(index));
      this.#steps.push(node);
      const kind = GIVES_LISTS.has(node.op) || (node.op === "Identity" && takesList) ? lists : unknown;
      node.outputs.forEach((name, output) => (givesStrings(node, output, takesText) ? texts : kind).add(name));
      for (const inner of node.graphs.values()) {
        this.#bodies.set(inner, new StagedGraph(context, inner, new Map([...initializers, ...inner.initializers]), lists, texts));
      }
    });
    close([]);
  }

  async run(scope: Scope, signal: AbortSignal | undefined): Promise<HostValue[]> {
    for (const step of this.#steps) {
      if (signal?.aborted) {
        throw aborted("session.run", signal.reason);
      }
      await (step instanceof Segment ? step.run(scope, signal) : this.#host(step, scope, signal));
    }
    return this.graph.outputs.map(({ name }) => this.#read(name, scope) ?? null);
  }

  #read(name: string, scope: Scope): HostValue | undefined {
    const bytes = this.initializers.get(name);
    return scope.get(name) ?? (bytes && importAny(bytes, this.context.folder, "an initializer"));
  }

  async #host(node: RawNode, scope: Scope, signal: AbortSignal | undefined): Promise<void> {
    const inputs = node.inputs.map((name) => (name === "" ? undefined : this.#read(name, scope)));
    const results = await this.#evaluate(node, inputs, scope, signal);
    node.outputs.forEach((name, index) => name !== "" && scope.set(name, results[index] ?? null));
  }

  async #evaluate(
    node: RawNode,
    inputs: readonly (HostValue | undefined)[],
    scope: Scope,
    signal: AbortSignal | undefined,
  ): Promise<readonly HostValue[]> {
    const simple = node.domain === "" ? SEQUENCE_OPS.get(node.op) : undefined;
    if (simple) {
      return [simple(node, inputs)];
    }
    const textual = STRING_OPS.get(opKey(node)) ?? (inputs.some(isStrings) ? ALSO_STRINGS.get(opKey(node)) : undefined);
    if (textual) {
      return textual(
        node,
        inputs.map((value) => (value === undefined || value === null ? undefined : isStrings(value) ? value : (tensorOf(value, node) as AnyTensor))),
      );
    }
    switch (node.op) {
      case "Identity":
        return [inputs[0] ?? null];
      case "If":
        return this.#body(node, Number(tensorOf(inputs[0], node).data[0]) ? "then_branch" : "else_branch").run(new Scope(scope), signal);
      case "Loop":
        return this.#loop(node, inputs, scope, signal);
      case "SequenceMap":
        return this.#map(node, inputs, scope, signal);
      default:
        return evaluateNode(this.context, node, inputs);
    }
  }

  #body(node: RawNode, name: string): StagedGraph {
    const body = this.#bodies.get(node.graphs.get(name)!);
    if (!body) {
      throw new AclError(100023, `node "${node.name}" (${node.op}) lacks its attribute "${name}"`);
    }
    return body;
  }

  async #loop(node: RawNode, inputs: readonly (HostValue | undefined)[], scope: Scope, signal: AbortSignal | undefined): Promise<HostValue[]> {
    const body = this.#body(node, "body");
    const names = body.graph.inputs.map(({ name }) => name);
    const limit = isTensor(inputs[0]) ? Number(inputs[0].data[0]) : Number.POSITIVE_INFINITY;
    let going = isTensor(inputs[1]) ? Number(inputs[1].data[0]) !== 0 : true;
    let states: HostValue[] = inputs.slice(2).map((value) => value ?? null);
    const collected: Tensor[][] = body.graph.outputs.slice(states.length + 1).map(() => []);
    const breathe = breathing();
    for (let turn = 0; going && turn < limit; turn++) {
      await breathe();
      const inner = new Scope(scope);
      [scalar("int64", turn), scalar("bool", 1), ...states].forEach((value, index) => inner.set(names[index]!, value));
      const [condition, ...values] = await body.run(inner, signal);
      going = Number(tensorOf(condition, node).data[0]) !== 0;
      const count = states.length;
      states = values.slice(0, count);
      collected.forEach((list, index) => list.push(tensorOf(values[count + index], node)));
    }
    return [...states, ...collected.map((list) => join(list, 0, true, node))];
  }

  async #map(node: RawNode, inputs: readonly (HostValue | undefined)[], scope: Scope, signal: AbortSignal | undefined): Promise<HostValue[]> {
    const body = this.#body(node, "body");
    const [first] = inputs;
    const results: HostValue[][] = body.graph.outputs.map(() => []);
    const breathe = breathing();
    for (let at = 0; at < (first as readonly HostValue[]).length; at++) {
      await breathe();
      const inner = new Scope(scope);
      body.graph.inputs.forEach(({ name }, index) => {
        const given = inputs[index] ?? null;
        inner.set(name, Array.isArray(given) ? (given as readonly HostValue[])[at]! : given);
      });
      (await body.run(inner, signal)).forEach((value, index) => results[index]!.push(value));
    }
    return results;
  }

  dispose(): void {
    for (const step of this.#steps) {
      step instanceof Segment && step.dispose();
    }
    for (const body of this.#bodies.values()) {
      body.dispose();
    }
  }
}

/** Longest stretch of turns between two of the event loop: a device without workers answers at once, so nothing else would let it run. */
const STRETCH_MS = 5;

function breathing(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < STRETCH_MS) {
      return undefined;
    }
    return new Promise((resolve) => {
      setImmediate(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}

const bytesOf = ({ data }: Tensor): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** A node by its operator's reference: with all its inputs known, inference folds it. */
function evaluateNode({ model, folder }: Context, node: RawNode, inputs: readonly (HostValue | undefined)[]): Tensor[] {
  const given = node.inputs.flatMap((name, index) => (name === "" ? [] : [{ name, value: tensorOf(inputs[index], node) }]));
  const ports = given.map(({ name, value: { dtype, dims } }) => ({ name, dtype, dims }));
  const { graph } = importer().importOnnx(
    assemble(
      model,
      [node],
      [],
      ports,
      node.outputs.filter((name) => name !== ""),
    ),
    folder,
  );
  graph.inputs.forEach((input) => {
    const { value } = given.find(({ name }) => name === input.name)!;
    input.constant = { dtype: value.dtype, dims: value.dims, bytes: bytesOf(value) };
  });
  const imported = compiler().upgrade(graph.nodes[0]!);
  compiler().inferNode(imported);
  return node.outputs.map((name) => {
    const output = imported.outputs.find((each) => each?.name === name);
    if (name === "" || !output?.constant) {
      return scalar("bool", 0); // nobody reads it
    }
    return runtimeTensor(output.dtype!, output.dims as number[], output.constant.bytes);
  });
}

export class StagedModel {
  readonly inputs: readonly RawInfo[];
  readonly outputs: readonly RawInfo[];
  readonly #graph: StagedGraph;

  private constructor(context: Context) {
    const { graph } = context.model;
    this.inputs = graph.inputs;
    this.outputs = graph.outputs;
    this.#graph = new StagedGraph(context, graph, graph.initializers, new Set(), new Set());
  }

  /** Undefined where the model has nothing that needs stages. @throws AclError 100024 that lists nodes which neither device nor host can run */
  static from(bytes: Uint8Array, folder: string | undefined, options: LoadOptions): StagedModel | undefined {
    const model = parseModel(bytes);
    const nodes = allNodes(model.graph);
    const { inputs, outputs } = model.graph;
    const special = [...inputs, ...outputs].some(({ kind, dtype }) => kind !== "tensor" || dtype === "string");
    if (!special && !inputs.some(({ anyRank }) => anyRank) && !nodes.some(isStaged)) {
      return undefined;
    }
    const onDevice = nodes.filter((node) => !isStaged(node) && !CONTROL.has(node.op));
    registry().requireOps(
      onDevice.map((node) => ({ ...node, opset: model.opsets.get(node.domain) ?? 1, inputs: [], outputs: [], attributes: new Map() })),
    );
    return new StagedModel({ model, folder, options });
  }

  async run(feeds: Readonly<Record<string, HostValue>>, signal: AbortSignal | undefined): Promise<Record<string, HostValue>> {
    const scope = new Scope();
    for (const { name, kind } of this.inputs) {
      const value = feeds[name];
      if (value === undefined && kind !== "optional") {
        throw new AclError(100017, `session.run: input "${name}" is missing`);
      }
      scope.set(name, value ?? null);
    }
    const results = await this.#graph.run(scope, signal);
    return Object.fromEntries(this.outputs.map(({ name }, index) => [name, results[index]!]));
  }

  infos(of: readonly RawInfo[]): ValueInfo[] {
    return of.map(({ name, dtype, dims }) => ({ name, dtype, dims }));
  }

  dispose(): void {
    this.#graph.dispose();
  }
}
