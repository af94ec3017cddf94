/** Contexts. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { handle, integer } from "../args";
import { bindContext, contextOf, current, defaultStreamOf, makeContext, primaryOf, unbind } from "../contexts";
import { destroyContext, systemParameter } from "../lifecycle";
import { deviceIfOpen, ensureDevice, physicalIndex } from "../devices";
import { exclusively } from "../process";
import { streamView } from "../streams";
import { call } from "../table";

export const contextCalls = {
  create_context: call({
    c: "aclrtCreateContext",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "Makes a context with a default stream and binds it to the calling thread.",
    none: 0,
    run(id) {
      const device = ensureDevice(physicalIndex(id, "create_context"));
      const context = exclusively(() => makeContext(device));
      bindContext(context);
      return context.handle;
    },
  }),
  destroy_context: call({
    c: "aclrtDestroyContext",
    args: [handle("context")],
    returns: "ret",
    doc: "Waits for the context's streams and destroys them, its events and itself; a thread that is bound to it has no context then.",
    blocks: true,
    run(handle): void {
      const context = contextOf(handle, "destroy_context");
      if (primaryOf(context.device) === context) {
        throw new AclError(107002, "destroy_context: this is the default context of its device; reset_device ends it");
      }
      destroyContext(context, "destroy_context");
      unbind(context.handle);
    },
  }),
  set_context: call({
    c: "aclrtSetCurrentContext",
    args: [handle("context")],
    returns: "ret",
    doc: "Binds the calling thread to a context of whatever thread and device.",
    run(handle): void {
      bindContext(contextOf(handle, "set_context"));
    },
  }),
  get_context: call({
    c: "aclrtGetCurrentContext",
    args: [],
    returns: "[value, ret]",
    doc: "The context of the calling thread, the default one too.",
    none: 0,
    run: () => current("get_context").handle,
  }),
  ctx_get_current_default_stream: call({
    c: "aclrtCtxGetCurrentDefaultStream",
    args: [],
    returns: "[value, ret]",
    doc: "The default stream of the current context; 0 means the same in other calls.",
    none: 0,
    run() {
      const context = current("ctx_get_current_default_stream");
      return streamView(context.device, defaultStreamOf(context)).handle;
    },
  }),
  get_primary_ctx_state: call({
    c: "aclrtGetPrimaryCtxState",
    args: [integer("deviceId")],
    returns: "[...values, ret]",
    doc: "Whether the device's default context is active, and its flags (0).",
    none: [0, 0],
    run(id): [number, number] {
      const device = deviceIfOpen(physicalIndex(id, "get_primary_ctx_state"));
      return [device?.active ? 1 : 0, 0];
    },
  }),
  ctx_set_sys_param_opt: call({
    c: "aclrtCtxSetSysParamOpt",
    args: [integer("option"), integer("value")],
    returns: "ret",
    doc: "Sets DETERMINISTIC (0), ENABLE_DEBUG_KERNEL (1) or STRONG_CONSISTENCY (2) of the current context.",
    run(option, value): void {
      systemParameter(current("ctx_set_sys_param_opt"), option, value, "ctx_set_sys_param_opt");
    },
  }),
  ctx_get_sys_param_opt: call({
    c: "aclrtCtxGetSysParamOpt",
    args: [integer("option")],
    returns: "[value, ret]",
    doc: "Reads what ctx_set_sys_param_opt set; 107021 if it did not.",
    none: 0,
    run: (option) => systemParameter(current("ctx_get_sys_param_opt"), option, undefined, "ctx_get_sys_param_opt"),
  }),
  set_sys_param_opt: call({
    c: "aclrtSetSysParamOpt",
    args: [integer("option"), integer("value")],
    returns: "ret",
    doc: "As ctx_set_sys_param_opt, for the whole process.",
    run(option, value): void {
      systemParameter(undefined, option, value, "set_sys_param_opt");
    },
  }),
  get_sys_param_opt: call({
    c: "aclrtGetSysParamOpt",
    args: [integer("option")],
    returns: "[value, ret]",
    doc: "The process-wide value; 0 if it was never set.",
    none: 0,
    run: (option) => systemParameter(undefined, option, undefined, "get_sys_param_opt"),
  }),
};

export function checkFlags(value: number, allowed: number, what: string): void {
  if (value < 0 || (value & ~allowed) !== 0) {
    throw invalidParam(`${what} is 0x${value.toString(16)}; the bits are 0x${allowed.toString(16)}`);
  }
}
