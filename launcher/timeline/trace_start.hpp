// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hvd::launch {

/// The content of the first event of a rank's trace.
struct TraceStart {
    std::filesystem::path file{};
    int rank = 0;
    int size = 1;
    std::string host{};
    std::string job{};           // as its launcher names it; empty: it has no name
    std::string clock{};         // steady_clock_id() there; empty: unknown
    std::int64_t steady_ns = 0;  // of that clock, at time 0 of the trace
    std::int64_t wall_ns = 0;    // likewise, since the epoch
};

}  // namespace hvd::launch
