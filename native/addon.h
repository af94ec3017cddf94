/**
 * The optional addon: what a process can do to its own threads, pages and files that JavaScript cannot.
 * No state is shared between environments except the table of wakers (wake.cc); nothing here knows a device.
 * Calls that the system may refuse return a libuv code (0 or negative, the same on every system) instead of throwing:
 * a refusal is an answer. Only arguments of the wrong type throw. Where a system lacks something the code is UV_ENOSYS.
 */
#pragma once

#include <napi.h>
#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace npurt {

/** Raised whenever a function changes its meaning; lib/host/addon.ts refuses a binary with another number. */
constexpr uint32_t kVersion = 3;

struct Bytes {
  uint8_t* start;
  size_t size;
};

/**
 * The bytes of a Uint8Array, also of one over shared memory. Throws TypeError and gives nothing for any other value:
 * Node-API does not accept a SharedArrayBuffer itself, so callers always pass a view.
 */
std::optional<Bytes> BytesOf(Napi::Env env, Napi::Value value, const char* name);

/** A whole number in [low, high]. Throws TypeError and gives nothing otherwise. */
std::optional<double> IntegerOf(Napi::Env env, Napi::Value value, const char* name, double low, double high);

void InitAffinity(Napi::Env env, Napi::Object exports);
void InitTopology(Napi::Env env, Napi::Object exports);
void InitFile(Napi::Env env, Napi::Object exports);
void InitPages(Napi::Env env, Napi::Object exports);
void InitWake(Napi::Env env, Napi::Object exports);
void InitCopy(Napi::Env env, Napi::Object exports);

}  // namespace npurt
