/** What users pass to calls and get from them, where the calls' own files need more than users see: public types never reach the device's layouts. */

// biome-ignore lint/suspicious/noExplicitAny: object and blocks are the user's.
type Any = any;

/** Functions of a user's allocator. */
export type Allocate = (object: Any, size: number) => unknown;
export type GiveBack = (object: Any, block: Any) => unknown;
export type Advise = (object: Any, size: number, address: number) => unknown;
export type AddressOf = (block: Any) => number;

/** Memory with errors. */
export interface BadRange {
  readonly addr: number;
  readonly len: number;
}

export type ExceptionCallback = (info: number) => void;

export interface ManagedLocation {
  readonly id?: number;
  readonly type?: number;
}
export type ManagedValue = number | { readonly id: number; readonly type: number } | readonly { readonly id: number; readonly type: number }[];

/** Queues on a stream what fills the memory again. */
export type Recompute = (address: number, stream: number) => unknown;
