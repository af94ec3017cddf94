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
static Bytes AnyBytes(napi_env env, napi_value value) {
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) return {nullptr, 0};
  return {static_cast<uint8_t*>(data), length * ElementBytes(type)};
}

/**
 * copy(target, to, source, from, sizeBytes): copies bytes of one typed array to another. False: it did not, since one of them has no such bytes.
 * Ranges instead of views: making a view costs as much as copying 16 KB.
 */
static napi_value Copy(napi_env env, napi_callback_info info) {
  napi_value args[5];
  size_t count = 5;
  double to = -1, from = -1, size = -1;
  bool done = false;
  if (napi_get_cb_info(env, info, &count, args, nullptr, nullptr) == napi_ok && count == 5 && napi_get_value_double(env, args[1], &to) == napi_ok &&
      napi_get_value_double(env, args[3], &from) == napi_ok && napi_get_value_double(env, args[4], &size) == napi_ok) {
    const Bytes target = AnyBytes(env, args[0]);
    const Bytes source = AnyBytes(env, args[2]);
    // Also false for NaN; sums of safe integers are exact.
    done = size > 0 && to >= 0 && from >= 0 && to + size <= static_cast<double>(target.size) && from + size <= static_cast<double>(source.size);
    if (done) std::memmove(target.start + static_cast<size_t>(to), source.start + static_cast<size_t>(from), static_cast<size_t>(size));
  }
  napi_value answer = nullptr;
  napi_get_boolean(env, done, &answer);
  return answer;
}

void InitCopy(Napi::Env env, Napi::Object exports) {
  napi_value copy = nullptr;
  if (napi_create_function(env, "copy", NAPI_AUTO_LENGTH, Copy, nullptr, &copy) == napi_ok) exports.Set("copy", Napi::Value(env, copy));
}

}  // namespace npurt
