// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/simulated_time.hpp"

#include <algorithm>

namespace hvd::launch {

SimulatedTime::Entry SimulatedTime::add(TimePoint at, std::function<void()> call) {
    const Entry entry(std::max(at, now_), ++count_);
    waiting_.emplace(entry, std::move(call));
    return entry;
}

bool SimulatedTime::advance() {
    if (waiting_.empty()) {
        return false;
    }
    const auto next = waiting_.extract(waiting_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
}

}  // namespace hvd::launch
