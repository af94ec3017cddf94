/** Facts about the calling thread and the machine that no file tells. cgroup quotas are files: lib/host/topology.ts reads them. */
#include "addon.h"

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace npurt {

/** threadId(): the system's id of the calling thread, 0 where there is none. */
static Napi::Value ThreadId(const Napi::CallbackInfo& info) {
#ifdef __linux__
  return Napi::Number::New(info.Env(), static_cast<double>(syscall(SYS_gettid)));
#else
  return Napi::Number::New(info.Env(), 0);
#endif
}

/** currentCpu(): the CPU that the calling thread runs on at this moment, or a libuv code. */
static Napi::Value CurrentCpu(const Napi::CallbackInfo& info) {
#ifdef __linux__
  return Napi::Number::New(info.Env(), sched_getcpu());
#else
  return Napi::Number::New(info.Env(), UV_ENOSYS);
#endif
}

void InitTopology(Napi::Env env, Napi::Object exports) {
  exports.Set("threadId", Napi::Function::New<ThreadId>(env, "threadId"));
  exports.Set("currentCpu", Napi::Function::New<CurrentCpu>(env, "currentCpu"));
}

}  // namespace npurt
