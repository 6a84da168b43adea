// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch {

/// Both ends of a pipe, close-on-exec.
struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

/// Errors: as of system_error.
[[nodiscard]] inline Result<Pipe> make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_error("pipe", errno);
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace hvd::launch
