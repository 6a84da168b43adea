// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "tests/integration/engine/engine_rank.hpp"

#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::test {

/// Where one rank waits for others, made before they are forked.
class Gate {
public:
    Gate() {
        std::array<int, 2> ends{};
        require(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
        out_ = UniqueFd(ends[0]);
        in_ = UniqueFd(ends[1]);
    }
    void arrive() const { require(::write(in_.get(), "", 1) == 1, "the gate is broken"); }
    void await(int ranks) const {
        for (char byte = 0; ranks > 0; --ranks) {
            require(::read(out_.get(), &byte, 1) == 1, "the gate is broken");
        }
    }

private:
    UniqueFd out_;
    UniqueFd in_;
};

}  // namespace hvd::test
