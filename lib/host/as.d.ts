/** AssemblyScript's number types as tsc sees them in asm/abi. Never emitted, so no public signature may mention them. */
declare type u8 = number;
declare type u16 = number;
declare type u32 = number;
declare type i32 = number;
declare type usize = number;
declare type bool = boolean;
