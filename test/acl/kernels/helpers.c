/*
 * Helper kernels in C, as a side module: static data and the stack lie where the loader says.
 * Build: clang --target=wasm32-unknown-emscripten -O2 -fPIC -fvisibility=hidden -nostdlib -c helpers.c -o helpers.o
 *        wasm-ld -shared --experimental-pic --no-entry helpers.o -o helpers.wasm
 */
typedef unsigned int u32;
#define KERNEL __attribute__((visibility("default"), used))
#define IMPORT(name) __attribute__((import_module("env"), import_name(name))) extern

IMPORT("block_index") u32 block_index(void);
IMPORT("block_count") u32 block_count(void);
IMPORT("print") void print(const char *text, u32 bytes);

/* Static data: one copy for all cores, written once when the binary is loaded. */
static u32 launches = 100;
static const u32 weights[4] = {3, 5, 7, 11};

/* z = x + y over `count` floats; each block does its share. */
KERNEL void AddDo(const float *x, const float *y, float *z, u32 count) {
  u32 blocks = block_count(), block = block_index();
  u32 first = (u32)((unsigned long long)count * block / blocks), end = (u32)((unsigned long long)count * (block + 1) / blocks);
  for (u32 i = first; i < end; i++) z[i] = x[i] + y[i];
}

/* out = number of launches so far, counted from 100. */
KERNEL void CountLaunches(u32 *out) {
  *out = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
}

/* A buffer on the stack, filled through a pointer the optimizer cannot see through; out = the weighted sum. */
static __attribute__((noinline)) void fill(volatile u32 *buffer, u32 seed) {
  for (u32 i = 0; i < 64; i++) buffer[i] = seed + i;
}

KERNEL void UseStack(u32 *out, u32 seed) {
  volatile u32 buffer[64];
  u32 sum = 0;
  fill(buffer, seed);
  for (u32 i = 0; i < 64; i++) sum += buffer[i] * weights[i & 3];
  out[block_index()] = sum;
}

/* Takes its stack and traps, so that the stack pointer is left behind. */
KERNEL void TrapOnStack(u32 seed) {
  volatile u32 buffer[64];
  fill(buffer, seed);
  if (buffer[3] != 0) __builtin_trap();
}

KERNEL void PrintHello(void) {
  static const char text[] = "Hello from C\n";
  print(text, sizeof text - 1);
}

/* Never ends and never polls. */
KERNEL void Runaway(volatile u32 *x) {
  while (*x != 0xffffffff) {}
}
