// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace hvd::launch {

/// A process that even KILL did not end.
struct Survivor {
    std::int32_t pid = 0;
    std::string state;  // one character of /proc/PID/stat
    std::string wchan;  // where in the kernel it waits

    friend bool operator==(const Survivor&, const Survivor&) = default;
};

}  // namespace hvd::launch
