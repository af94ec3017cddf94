/** Reads of files straight into memory that cores share, on libuv's pool: the event loop never waits for a disk. */
#include "addon.h"

#include <algorithm>
#include <cerrno>

namespace npurt {

// One libuv read takes at most this much: Linux cuts every read at 2^31 - 4096 bytes, and 1 GiB keeps the sum page-aligned.
constexpr size_t kReadLimit = size_t{1} << 30;

/**
 * One read from open to end. `target` keeps the view, and so the memory behind it, alive until the work is done;
 * the pool thread touches only `bytes`, `descriptor` and `position`, and writes `result`.
 */
struct Read {
  napi_env env;
  napi_async_work work;
  napi_deferred deferred;
  napi_ref target;
  Bytes bytes;
  uv_file descriptor;
  int64_t position;
  /** Bytes read (fewer than asked only at the end of the file), or a libuv code. */
  double result;
};

static void Execute(napi_env, void* data) {
  Read* read = static_cast<Read*>(data);
  size_t done = 0;
  while (done < read->bytes.size) {
    uv_fs_t request;
    const size_t ask = std::min(read->bytes.size - done, kReadLimit);
    uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(read->bytes.start + done), static_cast<unsigned int>(ask));
    // Without a callback uv_fs_read is the plain call, portable and allowed on any thread; it never uses the loop.
    const int got = uv_fs_read(nullptr, &request, read->descriptor, &buffer, 1, read->position + static_cast<int64_t>(done), nullptr);
    uv_fs_req_cleanup(&request);
    if (got == UV_EINTR) continue;
    if (got < 0) {
      read->result = got;
      return;
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  read->result = static_cast<double>(done);
}

/** Runs on the environment's own thread. In an environment that is being torn down the calls fail and change nothing. */
static void Complete(napi_env env, napi_status status, void* data) {
  Read* read = static_cast<Read*>(data);
  napi_handle_scope scope;
  if (napi_open_handle_scope(env, &scope) == napi_ok) {
    napi_value result;
    if (napi_create_double(env, status == napi_ok ? read->result : double{UV_ECANCELED}, &result) == napi_ok) {
      napi_resolve_deferred(env, read->deferred, result);
    }
    napi_delete_reference(env, read->target);
    napi_delete_async_work(env, read->work);
    napi_close_handle_scope(env, scope);
  }
  delete read;
}

/** readInto(fd, target, position): Promise of the bytes read or of a libuv code. The descriptor must stay open until then. */
static Napi::Value ReadInto(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const auto descriptor = IntegerOf(env, info[0], "fd", 0, 2147483647.0);
  if (!descriptor) return env.Undefined();
  const auto bytes = BytesOf(env, info[1], "target");
  if (!bytes) return env.Undefined();
  const auto position = IntegerOf(env, info[2], "position", 0, 9007199254740991.0);
  if (!position) return env.Undefined();

  Read* read = new Read{};
  read->env = env;
  read->bytes = *bytes;
  read->descriptor = static_cast<uv_file>(*descriptor);
  read->position = static_cast<int64_t>(*position);

  napi_value promise;
  const Napi::String name = Napi::String::New(env, "npurt:readInto");
  const bool started = napi_create_reference(env, info[1], 1, &read->target) == napi_ok &&
                       napi_create_async_work(env, nullptr, name, Execute, Complete, read, &read->work) == napi_ok &&
                       napi_create_promise(env, &read->deferred, &promise) == napi_ok &&
                       napi_queue_async_work(env, read->work) == napi_ok;
  if (started) return Napi::Value(env, promise);

  if (read->work) napi_delete_async_work(env, read->work);
  if (read->target) napi_delete_reference(env, read->target);
  delete read;
  Napi::Error::New(env, "readInto: the environment is shutting down").ThrowAsJavaScriptException();
  return env.Undefined();
}

void InitFile(Napi::Env env, Napi::Object exports) {
  exports.Set("readInto", Napi::Function::New<ReadInto>(env, "readInto"));
}

}  // namespace npurt
