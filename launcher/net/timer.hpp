// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"

#include <functional>
#include <memory>

namespace hvd::launch {

class IoThread;

/// Calls a function once a deadline has passed. Thread: io. It may be destroyed at any time except
/// from within its own function.
class Timer final {
public:
    explicit Timer(IoThread& io);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    /// Replaces what was set before. A deadline of never only cancels.
    void set(Deadline deadline, std::function<void()> expired);
    void cancel();

private:
    struct State;

    // Shared with the handler under way, which outlives a Timer that is destroyed meanwhile.
    std::shared_ptr<State> state_;
};

}  // namespace hvd::launch
