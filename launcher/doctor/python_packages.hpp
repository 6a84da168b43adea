// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"

#include <map>
#include <string>
#include <vector>

namespace hvd::launch {

struct PythonPackages {
    std::string interpreter;                   // "python3"
    std::map<std::string, std::string> found;  // package or file → where it is
    std::string error;                         // why nothing could be found out
};

/// Asks the Python of PATH where the packages `modules` are, without importing any, and which of
/// `files` ("nvidia/nccl/lib/libnccl.so.2") lie in its site directories. A Python that has not
/// answered by the deadline is killed.
[[nodiscard]] PythonPackages find_python_packages(const Environment& environment,
                                                  const std::vector<std::string>& modules,
                                                  const std::vector<std::string>& files,
                                                  const Deadline& deadline);

}  // namespace hvd::launch
