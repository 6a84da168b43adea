// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/idle_watch.hpp"

namespace hvd::launch::agent {

bool IdleWatch::is_overdue(bool is_idle, TimePoint now) {
    if (!is_idle) {
        deadline_.reset();
        return false;
    }
    if (deadline_ && now < *deadline_) {
        return false;
    }
    const bool is_first = !deadline_;
    deadline_ = now + kGrace;
    return !is_first;
}

}  // namespace hvd::launch::agent
