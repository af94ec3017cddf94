/**
 * Wakers: any thread of the process may ask the event loop of the thread that made the waker to call its function soon.
 * Signals merge: one call may stand for many, so the function looks at the fences, never at a count.
 */
#include "addon.h"

#include <mutex>
#include <map>

namespace npurt {

struct Waker {
  uv_async_t handle;
  napi_env env;
  napi_ref callback;
  napi_async_cleanup_hook_handle hook;
  double token;
  bool closing;
};

/** The only state that environments share. `lock` guards both fields, and every uv_async_send, against a close on another thread. */
struct Registry {
  std::mutex lock;
  std::map<double, Waker*> live;
  double last = 0;
};

static Registry& registry() {
  // Never destroyed: a core may signal while the process exits, after static destructors ran.
  static Registry* const instance = new Registry();
  return *instance;
}

static void Fire(uv_async_t* handle) {
  // The callback may close the waker, so nothing of it is read after the call.
  Waker* waker = static_cast<Waker*>(handle->data);
  if (waker->closing) return;
  napi_env env = waker->env;
  napi_handle_scope scope;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  napi_value callback;
  napi_value global;
  if (napi_get_reference_value(env, waker->callback, &callback) == napi_ok && napi_get_global(env, &global) == napi_ok) {
    napi_make_callback(env, nullptr, global, callback, 0, nullptr, nullptr);
    bool pending = false;
    napi_value error;
    if (napi_is_exception_pending(env, &pending) == napi_ok && pending && napi_get_and_clear_last_exception(env, &error) == napi_ok) {
      napi_fatal_exception(env, error);  // becomes 'uncaughtException', as for any other callback of the loop
    }
  }
  napi_close_handle_scope(env, scope);
}

static void Closed(uv_handle_t* handle) {
  Waker* waker = static_cast<Waker*>(handle->data);
  napi_remove_async_cleanup_hook(waker->hook);
  delete waker;
}

/** Owner's thread only. After this no signal reaches the handle; libuv calls Closed when it is out of the loop. */
static void Close(Waker* waker) {
  if (waker->closing) return;
  waker->closing = true;
  {
    std::lock_guard<std::mutex> guard(registry().lock);
    registry().live.erase(waker->token);
  }
  napi_delete_reference(waker->env, waker->callback);
  uv_close(reinterpret_cast<uv_handle_t*>(&waker->handle), Closed);
}

/** The environment ends: a loop with an open handle could not be closed. Node waits until Closed has removed the hook. */
static void CleanUp(napi_async_cleanup_hook_handle, void* data) { Close(static_cast<Waker*>(data)); }

/** createWaker(callback): token. The new waker does not keep the process alive. */
static Napi::Value CreateWaker(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsFunction()) {
    Napi::TypeError::New(env, "callback must be a function").ThrowAsJavaScriptException();
    return env.Undefined();
  }
  uv_loop_t* loop = nullptr;
  Waker* waker = new Waker{};
  waker->env = env;
  waker->handle.data = waker;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok || uv_async_init(loop, &waker->handle, Fire) != 0) {
    delete waker;
    Napi::Error::New(env, "createWaker: the event loop takes no handle").ThrowAsJavaScriptException();
    return env.Undefined();
  }
  uv_unref(reinterpret_cast<uv_handle_t*>(&waker->handle));
  napi_create_reference(env, info[0], 1, &waker->callback);
  napi_add_async_cleanup_hook(env, CleanUp, waker, &waker->hook);
  std::lock_guard<std::mutex> guard(registry().lock);
  waker->token = ++registry().last;
  registry().live.emplace(waker->token, waker);
  return Napi::Number::New(env, waker->token);
}

/** signal(token): true if the waker lives. Any thread. */
static Napi::Value Signal(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const auto token = IntegerOf(env, info[0], "token", 0, 9007199254740991.0);
  if (!token) return env.Undefined();
  std::lock_guard<std::mutex> guard(registry().lock);
  const auto found = registry().live.find(*token);
  if (found == registry().live.end()) return Napi::Boolean::New(env, false);
  uv_async_send(&found->second->handle);
  return Napi::Boolean::New(env, true);
}

/** The waker of argument 0 if this environment made it; null if it is closed or another thread's. Only its owner closes it, so it stays valid here. */
static Waker* OwnWaker(const Napi::CallbackInfo& info) {
  const auto token = IntegerOf(info.Env(), info[0], "token", 0, 9007199254740991.0);
  if (!token) return nullptr;
  std::lock_guard<std::mutex> guard(registry().lock);
  const auto found = registry().live.find(*token);
  return found != registry().live.end() && found->second->env == static_cast<napi_env>(info.Env()) ? found->second : nullptr;
}

/** refWaker(token, keep): whether the waker keeps its event loop alive. */
static Napi::Value RefWaker(const Napi::CallbackInfo& info) {
  if (Waker* waker = OwnWaker(info)) {
    uv_handle_t* handle = reinterpret_cast<uv_handle_t*>(&waker->handle);
    if (info[1].ToBoolean()) {
      uv_ref(handle);
    } else {
      uv_unref(handle);
    }
  }
  return info.Env().Undefined();
}

/** closeWaker(token): idempotent. */
static Napi::Value CloseWaker(const Napi::CallbackInfo& info) {
  if (Waker* waker = OwnWaker(info)) Close(waker);
  return info.Env().Undefined();
}

void InitWake(Napi::Env env, Napi::Object exports) {
  exports.Set("createWaker", Napi::Function::New<CreateWaker>(env, "createWaker"));
  exports.Set("signal", Napi::Function::New<Signal>(env, "signal"));
  exports.Set("refWaker", Napi::Function::New<RefWaker>(env, "refWaker"));
  exports.Set("closeWaker", Napi::Function::New<CloseWaker>(env, "closeWaker"));
}

}  // namespace npurt
