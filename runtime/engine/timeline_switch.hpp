// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/engine/progress_lock.hpp"
#include "runtime/tensor/ticket_table.hpp"
#include "runtime/timeline/timeline.hpp"

#include <memory>
#include <mutex>

namespace hvd::rt {

/// Which timeline, if any, observes the engine.
///
/// Thread: any, for every public method.
class TimelineSwitch {
public:
    /// Both outlive the last call.
    TimelineSwitch(TicketTable& tickets, ProgressLock& lock) : tickets_(tickets), lock_(lock) {}

    /// As Engine::start_timeline and stop_timeline.
    [[nodiscard]] Status start(Timeline::Options options);
    [[nodiscard]] Status stop();

private:
    void observe(Timeline* timeline);

    TicketTable& tickets_;
    ProgressLock& lock_;
    std::mutex mutex_;
    std::unique_ptr<Timeline> timeline_;  // guarded by mutex_; tickets_ may refer to it
};

}  // namespace hvd::rt
