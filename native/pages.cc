/** Advice to the system about the pages of a device's memory. Only whole pages inside the range are touched, never a neighbour's bytes. */
#include "addon.h"

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#endif

namespace npurt {

#ifdef __linux__
/** Applies `advice` to the whole pages inside `bytes`. Returns their size, or a libuv code. */
static double Advise(Bytes bytes, int advice) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = (reinterpret_cast<uintptr_t>(bytes.start) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.start) + bytes.size) & ~(page - 1);
  if (end <= start) return 0;
  if (madvise(reinterpret_cast<void*>(start), end - start, advice) != 0) return uv_translate_sys_error(errno);
  return static_cast<double>(end - start);
}
#endif

/** hugePages(range): bytes that may now be backed by huge pages, or a libuv code. */
static Napi::Value HugePages(const Napi::CallbackInfo& info) {
  const auto bytes = BytesOf(info.Env(), info[0], "range");
  if (!bytes) return info.Env().Undefined();
#ifdef __linux__
  return Napi::Number::New(info.Env(), Advise(*bytes, MADV_HUGEPAGE));
#else
  return Napi::Number::New(info.Env(), UV_ENOSYS);
#endif
}

/**
 * returnPages(range): bytes given back to the system, or a libuv code. They read as zero afterwards (V8's wasm memories are private
 * anonymous mappings); the ragged ends of the range, less than a page each, keep their bytes.
 */
static Napi::Value ReturnPages(const Napi::CallbackInfo& info) {
  const auto bytes = BytesOf(info.Env(), info[0], "range");
  if (!bytes) return info.Env().Undefined();
#ifdef __linux__
  return Napi::Number::New(info.Env(), Advise(*bytes, MADV_DONTNEED));
#else
  return Napi::Number::New(info.Env(), UV_ENOSYS);
#endif
}

/** pageBytes(): size of a page, or a libuv code. */
static Napi::Value PageBytes(const Napi::CallbackInfo& info) {
#ifdef __linux__
  return Napi::Number::New(info.Env(), static_cast<double>(sysconf(_SC_PAGESIZE)));
#else
  return Napi::Number::New(info.Env(), UV_ENOSYS);
#endif
}

void InitPages(Napi::Env env, Napi::Object exports) {
  exports.Set("hugePages", Napi::Function::New<HugePages>(env, "hugePages"));
  exports.Set("returnPages", Napi::Function::New<ReturnPages>(env, "returnPages"));
  exports.Set("pageBytes", Napi::Function::New<PageBytes>(env, "pageBytes"));
}

}  // namespace npurt
