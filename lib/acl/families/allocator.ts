/** Allocators of the user. What they serve here: data of a launch that does not fit the stream's ring. */
import { invalidParam } from "../../errors/make";
import { allocatorAt, allocatorOf, createAllocator, destroyAllocator, registerAllocator, unregisterAllocator } from "../allocators";
import type { AddressOf, Advise, Allocate, GiveBack } from "../shapes";
import { anything, func, handle } from "../args";
import { ownStream } from "../streams";
import { call } from "../table";

export const allocatorCalls = {
  allocator_create_desc: call({
    c: "aclrtAllocatorCreateDesc",
    args: [],
    returns: "value",
    doc: "A description of an allocator, to be filled by the calls below.",
    none: 0,
    run: () => createAllocator(),
  }),
  allocator_destroy_desc: call({
    c: "aclrtAllocatorDestroyDesc",
    args: [handle("allocatorDesc")],
    returns: "ret",
    doc: "Frees the description; no stream may use it.",
    run: (descriptor): void => destroyAllocator(descriptor, "allocator_destroy_desc"),
  }),
  allocator_set_obj_to_desc: call({
    c: "aclrtAllocatorSetObjToDesc",
    args: [handle("allocatorDesc"), anything("allocator")],
    returns: "ret",
    doc: "What the functions get as their first argument.",
    run(descriptor, object): void {
      allocatorAt(descriptor, "allocator_set_obj_to_desc").object = object;
    },
  }),
  allocator_set_alloc_func_to_desc: call({
    c: "aclrtAllocatorSetAllocFuncToDesc",
    args: [handle("allocatorDesc"), func<Allocate>("func")],
    returns: "ret",
    doc: "alloc(obj, size) returns a block; null, 0 or undefined: there is none.",
    run(descriptor, set): void {
      allocatorAt(descriptor, "allocator_set_alloc_func_to_desc").alloc = set;
    },
  }),
  allocator_set_free_func_to_desc: call({
    c: "aclrtAllocatorSetFreeFuncToDesc",
    args: [handle("allocatorDesc"), func<GiveBack>("func")],
    returns: "ret",
    doc: "free(obj, block), called when the task that used it has run.",
    run(descriptor, set): void {
      allocatorAt(descriptor, "allocator_set_free_func_to_desc").free = set;
    },
  }),
  allocator_set_alloc_advise_func_to_desc: call({
    c: "aclrtAllocatorSetAllocAdviseFuncToDesc",
    args: [handle("allocatorDesc"), func<Advise>("func")],
    returns: "ret",
    doc: "advise(obj, size, addr) returns a block, at best where the latest one was; called instead of alloc from the second time on.",
    run(descriptor, set): void {
      allocatorAt(descriptor, "allocator_set_alloc_advise_func_to_desc").advise = set;
    },
  }),
  allocator_set_get_addr_from_block_func_to_desc: call({
    c: "aclrtAllocatorSetGetAddrFromBlockFuncToDesc",
    args: [handle("allocatorDesc"), func<AddressOf>("func")],
    returns: "ret",
    doc: "addr(block) returns its device address.",
    run(descriptor, set): void {
      allocatorAt(descriptor, "allocator_set_get_addr_from_block_func_to_desc").addressOf = set;
    },
  }),
  allocator_register: call({
    c: "aclrtAllocatorRegister",
    args: [handle("stream"), handle("allocatorDesc")],
    returns: "ret",
    doc: "Scratch of the stream's tasks comes from the allocator: here the data of a launch that is too large for the stream's ring.",
    run: (stream, descriptor): void => registerAllocator(ownStream(stream, "allocator_register"), descriptor, "allocator_register"),
  }),
  allocator_unregister: call({
    c: "aclrtAllocatorUnregister",
    args: [handle("stream")],
    returns: "ret",
    doc: "Ends that; blocks in use are still given back.",
    run: (stream): void => unregisterAllocator(ownStream(stream, "allocator_unregister"), "allocator_unregister"),
  }),
  allocator_get_by_stream: call({
    c: "aclrtAllocatorGetByStream",
    args: [handle("stream")],
    returns: "[...values, ret]",
    doc: "Description, object and functions (alloc, free, alloc_advise, get_addr_from_block) of the stream's allocator.",
    none: [0, undefined, undefined, undefined, undefined, undefined],
    run(stream) {
      const found = allocatorOf(ownStream(stream, "allocator_get_by_stream"));
      if (found === undefined) {
        throw invalidParam("allocator_get_by_stream: the stream has no allocator; call allocator_register first");
      }
      const { object, alloc, free, advise, addressOf } = found.allocator;
      return [found.descriptor, object, alloc, free, advise, addressOf] as const;
    },
  }),
};
