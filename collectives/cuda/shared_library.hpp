// SPDX-License-Identifier: Apache-2.0
//
// Libraries that are opened at run time and never closed: the CUDA driver and NCCL have threads.
#pragma once

#include "collectives/base/result.hpp"

#include <string>
#include <vector>

namespace hvd::coll::cuda {

/// A library of this process. A copy is the same library.
struct SharedLibrary {
    void* handle = nullptr;
    std::string path;  // the file, as the dynamic linker found it

    friend bool operator==(const SharedLibrary&, const SharedLibrary&) = default;
};

/// Opens `name`, a file or what the dynamic linker looks up. Errors: unsupported, with the dynamic
/// linker's own words.
[[nodiscard]] Result<SharedLibrary> open_library(const std::string& name);

/// Those of this process whose file name begins with `prefix`, in the order in which they were
/// loaded. Opens none, and finds also what was loaded for one library alone.
[[nodiscard]] std::vector<SharedLibrary> loaded_libraries(const std::string& prefix);

/// The address of a symbol; nullptr where the library has none of that name.
[[nodiscard]] void* find_symbol(const SharedLibrary& library, const char* name) noexcept;

}  // namespace hvd::coll::cuda
