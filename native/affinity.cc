/** Which CPUs the calling thread may run on. Worker threads call it for themselves, so each core can be pinned alone. */
#include "addon.h"

#ifdef __linux__
#include <sched.h>
#include <cerrno>
#endif

namespace npurt {

#ifdef __linux__
// glibc's fixed cpu_set_t ends at 1,024 CPUs; machines beyond that need a set of their own size.
constexpr int kCpuLimit = 8192;

class CpuSet {
 public:
  CpuSet() : set_(CPU_ALLOC(kCpuLimit)), size_(CPU_ALLOC_SIZE(kCpuLimit)) { CPU_ZERO_S(size_, set_); }
  ~CpuSet() { CPU_FREE(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;

  cpu_set_t* get() { return set_; }
  size_t size() const { return size_; }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, size_, set_); }
  void add(int cpu) { CPU_SET_S(cpu, size_, set_); }

 private:
  cpu_set_t* set_;
  size_t size_;
};
#endif

/** affinity(): number[] of the calling thread, or a libuv code. */
static Napi::Value Affinity(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
#ifdef __linux__
  CpuSet set;
  if (sched_getaffinity(0, set.size(), set.get()) != 0) return Napi::Number::New(env, uv_translate_sys_error(errno));
  Napi::Array cpus = Napi::Array::New(env);
  uint32_t count = 0;
  for (int cpu = 0; cpu < kCpuLimit; cpu++) {
    if (set.has(cpu)) cpus.Set(count++, Napi::Number::New(env, cpu));
  }
  return cpus;
#else
  return Napi::Number::New(env, UV_ENOSYS);
#endif
}

/** setAffinity(cpus): 0, or a libuv code (UV_EINVAL when none of them is allowed here). */
static Napi::Value SetAffinity(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsArray()) {
    Napi::TypeError::New(env, "cpus must be an array").ThrowAsJavaScriptException();
    return env.Undefined();
  }
#ifdef __linux__
  const Napi::Array cpus = info[0].As<Napi::Array>();
  CpuSet set;
  for (uint32_t i = 0; i < cpus.Length(); i++) {
    const auto cpu = IntegerOf(env, cpus.Get(i), "cpu", 0, kCpuLimit - 1);
    if (!cpu) return env.Undefined();
    set.add(static_cast<int>(*cpu));
  }
  const int failed = sched_setaffinity(0, set.size(), set.get());
  return Napi::Number::New(env, failed ? uv_translate_sys_error(errno) : 0);
#else
  return Napi::Number::New(env, UV_ENOSYS);
#endif
}

void InitAffinity(Napi::Env env, Napi::Object exports) {
  exports.Set("affinity", Napi::Function::New<Affinity>(env, "affinity"));
  exports.Set("setAffinity", Napi::Function::New<SetAffinity>(env, "setAffinity"));
}

}  // namespace npurt
