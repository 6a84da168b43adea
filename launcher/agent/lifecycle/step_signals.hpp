// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace hvd::launch::agent {

/// Which signals the ranks of a Slurm step still have to be sent. Slurm gives a signal to every
/// process of a step, so what the agent itself got its ranks have too; and where it means the whole
/// job (scancel) horovodrun gets it as well and passes it on. Either may be first: what horovodrun
/// asks for is held back for a moment. A machine without I/O.
class StepSignals final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// At most. Slurm tells one node after the other.
    static constexpr auto kHold = std::chrono::milliseconds(1000);
    static constexpr auto kSame = std::chrono::milliseconds(3000);
    static constexpr auto kStepTime = std::chrono::milliseconds(50);

    /// Slurm gave it to the step. False: that was just told, it is the same one again.
    [[nodiscard]] bool hear(int number, TimePoint now);

    /// horovodrun wants the ranks to get it, and gives them `grace` if they shall end by it: what
    /// is held back longer would come after the KILL. Of stopping and going on the last one counts.
    void ask(int number, TimePoint now, std::chrono::milliseconds grace);

    /// The ranks are killed: nothing is sent any more.
    void drop_held() noexcept { held_.clear(); }

    /// The signals that the ranks get now, each once.
    [[nodiscard]] std::vector<int> take_due(TimePoint now);

    [[nodiscard]] std::optional<TimePoint> deadline() const;

    /// A signal of Slurm has ended a rank, and may not have come to this process yet: Slurm tells
    /// one process of a step after the other, in 50 ms.
    void expect(TimePoint now) { expected_until_ = now + kStepTime; }
    [[nodiscard]] bool is_expecting(TimePoint now);

    /// Slurm gave it to the step then or later.
    [[nodiscard]] bool was_heard(int number, TimePoint since) const;

private:
    [[nodiscard]] bool is_recent(int number, TimePoint now) const;

    std::map<int, TimePoint> heard_;
    std::map<int, TimePoint> held_;  // until when
    std::optional<TimePoint> expected_until_;
};

}  // namespace hvd::launch::agent
