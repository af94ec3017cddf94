#include "addon.h"

#include <cmath>
#include <string>

namespace npurt {

std::optional<Bytes> BytesOf(Napi::Env env, Napi::Value value, const char* name) {
  if (value.IsTypedArray()) {
    napi_typedarray_type type;
    size_t length = 0;
    void* data = nullptr;
    // Asked through the C interface: Napi::TypedArray would fetch the ArrayBuffer, which fails for shared memory.
    const napi_status status = napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr);
    if (status == napi_ok && type == napi_uint8_array) return Bytes{static_cast<uint8_t*>(data), length};
  }
  Napi::TypeError::New(env, std::string(name) + " must be a Uint8Array").ThrowAsJavaScriptException();
  return std::nullopt;
}

std::optional<double> IntegerOf(Napi::Env env, Napi::Value value, const char* name, double low, double high) {
  if (value.IsNumber()) {
    const double number = value.As<Napi::Number>().DoubleValue();
    if (number >= low && number <= high && std::trunc(number) == number) return number;
  }
  Napi::TypeError::New(env, std::string(name) + " must be a whole number in its range").ThrowAsJavaScriptException();
  return std::nullopt;
}

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("version", Napi::Number::New(env, kVersion));
  InitAffinity(env, exports);
  InitTopology(env, exports);
  InitFile(env, exports);
  InitPages(env, exports);
  InitWake(env, exports);
  InitCopy(env, exports);
  return exports;
}

NODE_API_MODULE(npurt, Init)

}  // namespace npurt
