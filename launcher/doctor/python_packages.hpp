// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hvd::launch {

struct PythonPackages {
    /// The NCCL library that this Python's `horovod.nccl_built()` finds.
    struct Nccl {
        int version = 0;   // its code; 0: none
        std::string file;  // of a package; empty: the dynamic loader's

        friend bool operator==(const Nccl&, const Nccl&) = default;
    };
    std::string interpreter;                   // "/usr/bin/python3"
    std::map<std::string, std::string> found;  // package → where it is
    Nccl nccl{};
    std::string error;  // why nothing could be found out
};

/// Asks a Python where the packages `modules` are, without importing any, and which NCCL it would
/// load. It is the one in the folder `beside`, unless that is empty or has none, else that of PATH.
/// A Python that has not answered by the deadline is killed.
[[nodiscard]] PythonPackages find_python_packages(const Environment& environment,
                                                  const std::filesystem::path& beside,
                                                  const std::vector<std::string>& modules,
                                                  const Deadline& deadline);

}  // namespace hvd::launch
