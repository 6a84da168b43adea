// SPDX-License-Identifier: Apache-2.0
//
// NCCL as one table of functions. Nothing links it. Only collectives/nccl and tests include this
// header: it brings in NCCL's.
#pragma once

#include "collectives/base/result.hpp"

#include <nccl.h>

#include <filesystem>
#include <string>
#include <vector>

namespace hvd::coll::nccl {

/// The functions of every NCCL that is taken.
// clang-format off
#define HVD_NCCL_FUNCTIONS(X)                                                             \
    X(ncclGetVersion) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGetUniqueId)        \
    X(ncclCommInitRankConfig) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort)     \
    X(ncclCommGetAsyncError) X(ncclGroupStart) X(ncclGroupEnd)                            \
    X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy) X(ncclAllReduce) X(ncclAllGather)     \
    X(ncclReduceScatter) X(ncclBroadcast) X(ncclReduce) X(ncclSend) X(ncclRecv)

/// Later functions, with the first version that has them. nullptr where the library is older.
#define HVD_NCCL_LATER_FUNCTIONS(X)                                                       \
    X(ncclCommRegister, 21900) X(ncclCommDeregister, 21900)                               \
    X(ncclMemAlloc, 21900) X(ncclMemFree, 21900)
// clang-format on

/// The functions, under their own names. A value: the library is never closed.
struct Library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a name
#define HVD_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
#define HVD_NCCL_LATER_MEMBER(name, since) HVD_NCCL_MEMBER(name)
    HVD_NCCL_FUNCTIONS(HVD_NCCL_MEMBER)
    HVD_NCCL_LATER_FUNCTIONS(HVD_NCCL_LATER_MEMBER)
#undef HVD_NCCL_LATER_MEMBER
#undef HVD_NCCL_MEMBER

    int version = 0;   // 21803 is 2.18.3
    std::string path;  // of the file
};

inline constexpr int kOldestVersion = 21803;
inline constexpr const char* kLibraryName = "libnccl.so.2";

/// Names the NCCL to load.
inline constexpr const char* kEnvLibrary = "HOROVOD_NCCL_LIBRARY";

/// Where to look.
struct Search {
    std::string named;                           // by kEnvLibrary; empty: none
    std::vector<std::filesystem::path> folders;  // the interpreter's: site-packages/nvidia/nccl/lib
};

/// Opens NCCL: the one that is named, else the one that this process has loaded (the framework's),
/// else one in a folder of the interpreter, else the system's. Two in one process would not know of
/// each other, so a named one is an error where another is loaded.
/// Errors: invalid_argument where the named one cannot be used; unsupported where there is none or
/// it is too old, with paths and versions.
[[nodiscard]] Result<Library> open_library(const Search& search);

/// Where pip has put NCCL, if it has: beside the wheel of which this code is.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_pip();

/// "2.18.3" for 21803.
[[nodiscard]] std::string version_text(int version);

}  // namespace hvd::coll::nccl
