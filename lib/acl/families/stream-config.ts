/** Streams made from a configuration handle, and events that join streams with graphs. */
import { invalidParam } from "../../errors/make";
import { handle, integer } from "../args";
import { EventFlag, eventOf } from "../events";
import { HandleTable, HandleType } from "../handles";
import { call } from "../table";
import { eventCalls } from "./event";
import { streamCalls } from "./stream";

/** aclrtStreamConfigAttr. */
enum Attribute {
  WORK_ADDRESS,
  WORK_SIZE,
  FLAG,
  PRIORITY,
}

interface StreamConfig {
  flags: number;
  priority: number;
}

/** aclrtEventRecord and wait flags. */
const PLAIN = 0;
const EXTERNAL = 1;

const configs = new HandleTable<StreamConfig>(HandleType.STREAM_CONFIG);

/** Outside a graph an external event is like any other; the flag only says which events may be used so. */
function checkExternal(event: number, flag: number, what: string): void {
  if (flag !== PLAIN && flag !== EXTERNAL) {
    throw invalidParam(`${what}: flag is ${flag}; pass 0 or 1 (external)`);
  }
  if (flag === EXTERNAL && eventOf(event, what).flags !== EventFlag.EXTERNAL) {
    throw invalidParam(`${what}: the event is not external; create it with create_event_with_flag(0x20)`);
  }
}

export const streamConfigCalls = {
  create_stream_config_handle: call({
    c: "aclrtCreateStreamConfigHandle",
    args: [],
    returns: "value",
    doc: "A configuration for create_stream_v2.",
    none: 0,
    run: () => configs.add({ flags: 0, priority: 0 }),
  }),
  set_stream_config_opt: call({
    c: "aclrtSetStreamConfigOpt",
    args: [handle("config"), integer("attribute"), integer("value")],
    returns: "ret",
    doc: "Sets flag (2) or priority (3); work address (0) and size (1) are taken by the stream's own ring here and may only be 0.",
    run(handle, attribute, value): void {
      const what = "set_stream_config_opt";
      const config = configs.get(handle, `${what}: config`);
      switch (attribute) {
        case Attribute.FLAG:
          config.flags = value;
          break;
        case Attribute.PRIORITY:
          config.priority = value;
          break;
        case Attribute.WORK_ADDRESS:
        case Attribute.WORK_SIZE:
          if (value !== 0) {
            throw invalidParam(`${what}: a stream of the emulator brings its own work memory; leave attribute ${attribute} out or pass 0`);
          }
          break;
        default:
          throw invalidParam(`${what}: attribute ${attribute} is unknown; pass 2 (flag) or 3 (priority)`);
      }
    },
  }),
  destroy_stream_config_handle: call({
    c: "aclrtDestroyStreamConfigHandle",
    args: [handle("config")],
    returns: "ret",
    doc: "Frees the configuration; its streams stay.",
    run(handle): void {
      configs.remove(handle, "destroy_stream_config_handle: config");
    },
  }),
  create_stream_v2: call({
    c: "aclrtCreateStreamV2",
    args: [handle("config")],
    returns: "[value, ret]",
    doc: "A stream as the configuration says; 0 stands for the defaults.",
    none: 0,
    run(handle) {
      const { flags, priority } = handle === 0 ? { flags: 0, priority: 0 } : configs.get(handle, "create_stream_v2: config");
      return streamCalls.create_stream_with_config.run(priority, flags);
    },
  }),
  record_event_with_flag: call({
    c: "aclrtRecordEventWithFlag",
    args: [handle("event"), handle("stream"), integer("flag")],
    returns: "ret",
    doc: "As record_event; flag 1 for an external event, which graphs and streams have in common.",
    run(event, stream, flag): void {
      checkExternal(event, flag, "record_event_with_flag");
      eventCalls.record_event.run(event, stream);
    },
  }),
  stream_wait_event_with_flag: call({
    c: "aclrtStreamWaitEventWithFlag",
    args: [handle("stream"), handle("event"), integer("flag")],
    returns: "ret",
    doc: "As stream_wait_event; flag 1 for an external event.",
    run(stream, event, flag): void {
      checkExternal(event, flag, "stream_wait_event_with_flag");
      eventCalls.stream_wait_event.run(stream, event);
    },
  }),
};

export function forgetStreamConfigs(): void {
  configs.clear();
}
