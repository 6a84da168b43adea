// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: spins for a few looks.
#pragma once

#include "tests/simulation/engine/scheduler.hpp"

#include <chrono>

namespace hvd::rt {

class Spinner {
public:
    explicit Spinner(bool /*is_oversubscribed*/) noexcept { draw(); }

    void reset() noexcept { draw(); }

    [[nodiscard]] bool pause() {
        auto& scheduler = sim::Scheduler::current();
        if (left_ == 0) {
            draw();
            return false;
        }
        --left_;
        scheduler.yield();
        return true;
    }

private:
    void draw() { left_ = static_cast<unsigned>(sim::Scheduler::current().random().below(4)); }

    unsigned left_ = 0;
};

}  // namespace hvd::rt
