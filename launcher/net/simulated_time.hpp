// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace hvd::launch {

/// Time for a loop whose world is simulated: it stands still while there is something to do, and
/// then jumps to the next thing that waits for it. Of two for the same moment the older is first.
/// Thread: io.
class SimulatedTime final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Entry = std::pair<TimePoint, std::uint64_t>;

    [[nodiscard]] TimePoint now() const noexcept { return now_; }

    /// Has `call` called at this time, at once when it has passed.
    Entry add(TimePoint at, std::function<void()> call);

    /// Takes it back, unless it was called.
    void remove(const Entry& entry) { waiting_.erase(entry); }

    /// Jumps to what is next and calls it. False when nothing waits.
    bool advance();

private:
    TimePoint now_{};
    std::uint64_t count_ = 0;
    std::map<Entry, std::function<void()>> waiting_;
};

}  // namespace hvd::launch
