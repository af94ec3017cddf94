/**
 * Labels, and the switches between streams. All of these jump within the tasks of a model instance (aclmdlRI): as long as no stream can be bound to one,
 * setting a label and jumping is what CANN says about other streams: 107005.
 */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { resolveOn } from "../addresses";
import { handle, integer, list, pointer } from "../args";
import { type AclContext, current } from "../contexts";
import { HandleTable, HandleType } from "../handles";
import { contextEnds } from "../lifecycle";
import { type AclStream, checkLaunch, ownStream } from "../streams";
import { call } from "../table";

interface Label {
  readonly context: number;
  /** Lists that name it. */
  lists: number;
}
interface LabelList {
  readonly context: number;
  readonly labels: readonly number[];
}
const LABEL_LIMIT = 65535;
const WORD_BYTES = 4;
const labels = new HandleTable<Label>(HandleType.LABEL);
const lists = new HandleTable<LabelList>(HandleType.LABEL_LIST);
/** Handles of each context. */
const owned = new Map<number, Set<number>>();

/** @throws AclError 507031 for a label of another context */
function labelAt(label: number, context: AclContext, what: string): Label {
  const found = labels.get(label, `${what}: label`);
  if (found.context !== context.handle) {
    throw new AclError(507031, `${what}: the label belongs to another context; call set_context first`);
  }
  return found;
}

function unbound(stream: AclStream, what: string): AclError {
  return new AclError(
    107005,
    `${what}: ${stream.core.name} is bound to no model instance, and only there tasks can be jumped between; let the host decide what to launch, or let streams wait for values`,
  );
}

function own(context: AclContext, made: number): number {
  const all = owned.get(context.handle) ?? new Set<number>();
  owned.set(context.handle, all.add(made));
  return made;
}

contextEnds.push((context) => {
  for (const made of owned.get(context.handle) ?? []) {
    forget(made);
  }
  owned.delete(context.handle);
});

function forget(made: number): void {
  for (const table of [lists, labels]) {
    try {
      table.remove(made, "label");
      return;
    } catch (error) {
      if (!(error instanceof AclError)) {
        throw error;
      }
    }
  }
}

export const labelCalls = {
  create_label: call({
    c: "aclrtCreateLabel",
    args: [],
    returns: "[value, ret]",
    doc: "A label of the current context; 65535 at most.",
    none: 0,
    run() {
      const context = current("create_label");
      if (labels.size >= LABEL_LIMIT) {
        throw new AclError(207012, `create_label: ${LABEL_LIMIT} labels are live; destroy some`);
      }
      return own(context, labels.add({ context: context.handle, lists: 0 }));
    },
  }),
  destroy_label: call({
    c: "aclrtDestroyLabel",
    args: [handle("label")],
    returns: "ret",
    doc: "Destroys a label that is in no list.",
    run(label): void {
      const context = current("destroy_label");
      if (labelAt(label, context, "destroy_label").lists > 0) {
        throw invalidParam("destroy_label: a list names the label; destroy the list first");
      }
      labels.remove(label, "destroy_label: label");
      owned.get(context.handle)?.delete(label);
    },
  }),
  create_label_list: call({
    c: "aclrtCreateLabelList",
    args: [list("labels", handle)],
    returns: "[value, ret]",
    doc: "A list of labels, in the order of the indexes that switch between them.",
    none: 0,
    run(handles) {
      const context = current("create_label_list");
      if (handles.length === 0 || handles.length > LABEL_LIMIT) {
        throw invalidParam(`create_label_list: ${handles.length} labels; pass 1 to ${LABEL_LIMIT}`);
      }
      const found = handles.map((label) => labelAt(label, context, "create_label_list"));
      for (const label of found) {
        label.lists++;
      }
      return own(context, lists.add({ context: context.handle, labels: handles }));
    },
  }),
  destroy_label_list: call({
    c: "aclrtDestroyLabelList",
    args: [handle("labelList")],
    returns: "ret",
    doc: "Destroys the list; its labels stay.",
    run(labelList): void {
      const context = current("destroy_label_list");
      for (const label of lists.remove(labelList, "destroy_label_list: labelList").labels) {
        labels.get(label, "destroy_label_list: label").lists--;
      }
      owned.get(context.handle)?.delete(labelList);
    },
  }),
  set_label: call({
    c: "aclrtSetLabel",
    args: [handle("label"), handle("stream")],
    returns: "ret",
    doc: "Marks a place in a stream of a model instance; there are none yet, and other streams give 107005.",
    refused: 107005,
    run(label, streamHandle): void {
      const stream = ownStream(streamHandle, "set_label");
      labelAt(label, current("set_label"), "set_label");
      throw unbound(stream, "set_label");
    },
  }),
  switch_label_by_index: call({
    c: "aclrtSwitchLabelByIndex",
    args: [pointer("ptr"), integer("maxValue"), handle("labelList"), handle("stream")],
    returns: "ret",
    doc: "Jumps to the label whose index stands in device memory; only in streams of a model instance, others give 107005.",
    refused: 107005,
    run(ptr, most, labelList, streamHandle): void {
      const what = "switch_label_by_index";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const { labels: named } = lists.get(labelList, `${what}: labelList`);
      resolveOn(stream.device, ptr, WORD_BYTES, `${what}: ptr`);
      if (most < 1 || most > named.length) {
        throw invalidParam(`${what}: maxValue is ${most}; pass 1 to ${named.length}, the length of the list`);
      }
      throw unbound(stream, what);
    },
  }),
  active_stream: call({
    c: "aclrtActiveStream",
    args: [handle("activeStream"), handle("stream")],
    returns: "ret",
    doc: "Starts another stream of the same model instance; other streams give 107005.",
    refused: 107005,
    run(active, streamHandle): void {
      const stream = ownStream(streamHandle, "active_stream");
      ownStream(active, "active_stream");
      throw unbound(stream, "active_stream");
    },
  }),
  switch_stream: call({
    c: "aclrtSwitchStream",
    args: [
      pointer("leftValue"),
      integer("condition"),
      pointer("rightValue"),
      integer("dataType"),
      handle("trueStream"),
      handle("falseStream"),
      handle("stream"),
    ],
    returns: "ret",
    doc: "Goes on in another stream of the same model instance if a comparison holds; other streams give 107005.",
    refused: 107005,
    run(_left, _condition, _right, _dataType, whenTrue, _whenFalse, streamHandle): void {
      const stream = ownStream(streamHandle, "switch_stream");
      ownStream(whenTrue, "switch_stream");
      throw unbound(stream, "switch_stream");
    },
  }),
};

export function forgetLabels(): void {
  labels.clear();
  lists.clear();
  owned.clear();
}
