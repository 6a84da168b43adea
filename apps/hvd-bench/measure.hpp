// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/hvd-bench/options.hpp"
#include "runtime/include/hvd/hvd.hpp"

#include <cstddef>

namespace hvd::bench {

/// One line of the table.
struct Line {
    Mode mode = Mode::loop;
    std::size_t bytes = 0;   // of one rank's input
    double time_us = 0;      // of one call, the same on all ranks
    std::size_t errors = 0;  // wrong elements, on all ranks
};

/// Times one size in one mode. All ranks call it with the same arguments.
[[nodiscard]] Line measure(World& world, const Options& options, Mode mode, std::size_t bytes);

}  // namespace hvd::bench
