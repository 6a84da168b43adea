// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/timeline_switch.hpp"

#include <utility>

namespace hvd::rt {

Status TimelineSwitch::start(Timeline::Options options) {
    if (lock_.is_mine()) {
        return Error{Errc::invalid_argument, "a callback must not start a timeline"};
    }
    const std::lock_guard lock(mutex_);
    if (timeline_ && timeline_->path() == options.path) {
        return ok();
    }
    HVD_TRY(auto next, Timeline::start(std::move(options)));
    observe(next.get());
    timeline_ = std::move(next);  // the one before it writes its last events here
    return ok();
}

Status TimelineSwitch::stop() {
    if (lock_.is_mine()) {
        return Error{Errc::invalid_argument, "a callback must not stop a timeline"};
    }
    const std::lock_guard lock(mutex_);
    observe(nullptr);
    timeline_.reset();
    return ok();
}

void TimelineSwitch::observe(Timeline* timeline) {
    const auto hold = lock_.take();
    tickets_.set_observer(timeline);
}

}  // namespace hvd::rt
