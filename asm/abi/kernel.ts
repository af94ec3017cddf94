/** User kernels: a WebAssembly module in device memory, the launch of one of its functions, and what it prints. See asm/abi/device.ts for the rules of this folder. */

/** A loaded module. A core instantiates it over the device's memory when it first runs a kernel of it. */
export namespace Binary {
  export const SIZE: usize = 64;
  export const ID: usize = 0; // unlike that of any other binary the device ever had; 0 = unloaded
  export const MODULE: usize = 4; // address of the module's bytes
  export const MODULE_BYTES: usize = 8;
  export const DATA: usize = 12; // address of its static data, one copy for all cores; 0 = none
  export const TABLE: usize = 16; // elements of the function table that it imports
}

/** One launch: header, a byte per argument (ArgumentKind) up to the next multiple of 8, then 8 bytes per argument unless ARGUMENTS says where. */
export namespace Launch {
  export const SIZE: usize = 32;
  export const BINARY: usize = 0; // address
  export const FUNCTION: usize = 4; // index among the module's exports
  export const BLOCKS: usize = 8;
  export const COUNT: usize = 12; // arguments
  export const ARGUMENTS: usize = 16; // address of the first argument; 0 = they follow the kinds
}
export const ARGUMENT_LIMIT: u32 = 128;
/** Of a core's scratch, this much from the start belongs to the block that runs; the stack of C grows down from its end. */
export const STACK_BYTES: u32 = 262144;

/** How an argument's 8 bytes become a WebAssembly value. */
export enum ArgumentKind {
  I32,
  I64,
  F32,
  F64,
  POINTER, // an address as users see it, whose upper half must name this device, or a plain 32-bit number
  PLACED, // bytes from the launch record to data that travels with the launch
}

/** The ring that kernels print to: NEXT, then PRINT_SLOTS records. A message takes as many neighbouring slots as its text needs. */
export namespace PrintRing {
  export const NEXT: usize = 0; // slots taken so far; atomic
  export const RECORDS: usize = 64;
}
export namespace Print {
  export const SIZE: usize = 256;
  export const READY: usize = 0; // slot number + 1 once the message is whole; atomic, written last in the first slot
  export const BINARY: usize = 4; // id
  export const BLOCK: usize = 8;
  export const BYTES: usize = 12; // of the whole message; PRINT_MORE = this slot goes on with the message before it
  export const TEXT: usize = 16;
}
export const PRINT_SLOTS: u32 = 1024;
export const PRINT_TEXT_BYTES: u32 = 240;
export const PRINT_MESSAGE_SLOTS: u32 = 16;
export const PRINT_MORE: u32 = 0xffffffff;
