{
  "targets": [
    {
      "target_name": "npurt",
      "sources": ["native/addon.cc", "native/affinity.cc", "native/topology.cc", "native/file.cc", "native/pages.cc", "native/wake.cc", "native/copy.cc"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      # Failed calls in a dying environment must not abort the process: the swallow define turns them into no-ops.
      "defines": ["NAPI_VERSION=9", "NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "cflags_cc": ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
      "xcode_settings": { "CLANG_CXX_LANGUAGE_STANDARD": "c++17", "GCC_SYMBOLS_PRIVATE_EXTERN": "YES", "MACOSX_DEPLOYMENT_TARGET": "11.0" },
      "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/std:c++17"] } }
    }
  ]
}
