/**
 * Copies between a device's memory and arrays of JavaScript. V8 copies shared memory word by word; the system's memmove takes a fifth of that for
 * pieces that fit the first cache.
 */
#include <cstring>

#include "addon.h"

namespace npurt {

static size_t ElementBytes(napi_typedarray_type type) {
  switch (type) {
    case napi_int8_array:
    case napi_uint8_array:
    case napi_uint8_clamped_array:
      return 1;
    case napi_int16_array:
    case napi_uint16_array:
      return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array:
      return 4;
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array:
      return 8;
    default:
      return 0;
  }
}

/** Bytes of a typed array of any kind; size 0 for anything else. */
static Bytes AnyBytes(Napi::Env env, Napi::Value value) {
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  if (!value.IsTypedArray() || napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) return {nullptr, 0};
  return {static_cast<uint8_t*>(data), length * ElementBytes(type)};
}

/** copy(target, source): copies the bytes of one typed array into another of the same size. False: it did not, since they are no such two. */
static Napi::Value Copy(const Napi::CallbackInfo& info) {
  const Bytes target = AnyBytes(info.Env(), info[0]);
  const Bytes source = AnyBytes(info.Env(), info[1]);
  if (source.size == 0 || target.size != source.size) return Napi::Boolean::New(info.Env(), false);
  std::memmove(target.start, source.start, source.size);
  return Napi::Boolean::New(info.Env(), true);
}

void InitCopy(Napi::Env env, Napi::Object exports) {
  exports.Set("copy", Napi::Function::New<Copy>(env, "copy"));
}

}  // namespace npurt
