// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/transport/endpoint.hpp"

#include <utility>
#include <vector>

namespace hvd::coll {

/// Runs a schedule on an endpoint, which outlives it. A schedule is a class with
///     bool advance(At& at)   ends the last step and adds the messages of the next one. False when
///                            there is none.
template <Endpoint At, class Schedule>
class ScheduledWork final : public Work {
public:
    template <class... Arguments>
    explicit ScheduledWork(At& at, Arguments&&... arguments)
        : at_(at), schedule_(at, std::forward<Arguments>(arguments)...) {}

    [[nodiscard]] Result<Progress> poll() override {
        while (!is_over_) {
            if (in_step_) {
                HVD_TRY(const bool is_step_over, at_.wait());
                if (!is_step_over) {
                    return Progress::pending;
                }
                has_ended_step_ = true;
            }
            in_step_ = schedule_.advance(at_);
            is_over_ = !in_step_;
            if (in_step_) {
                at_.post();
            }
        }
        return Progress::done;
    }

    /// A member that is late in a later step may itself wait for another one.
    [[nodiscard]] std::vector<int> missing() const override {
        if constexpr (requires { at_.missing(); }) {
            return in_step_ && !has_ended_step_ ? at_.missing() : std::vector<int>{};
        }
        return {};
    }

private:
    At& at_;
    Schedule schedule_;
    bool in_step_ = false;
    bool has_ended_step_ = false;
    bool is_over_ = false;
};

/// Calls `function(place)` for every other member, the next one first, so that not all send to the
/// same place at the same time.
template <Endpoint At, class Function>
void for_each_peer(const At& at, Function function) {
    for (int step = 1; step < at.size(); ++step) {
        function((at.place() + step) % at.size());
    }
}

/// The bytes of a list between two borders, as a part of the message to, or from, a place.
template <Endpoint At, class List>
void send_range(At& at, int place, const List& list, std::size_t begin, std::size_t end) {
    list.for_each(begin, end, [&](const std::byte* memory, std::size_t bytes, std::size_t) {
        at.send(place, {memory, bytes});
    });
}
template <Endpoint At, class List>
void recv_range(At& at, int place, const List& list, std::size_t begin, std::size_t end) {
    list.for_each(begin, end, [&](std::byte* memory, std::size_t bytes, std::size_t) {
        at.recv(place, {memory, bytes});
    });
}

}  // namespace hvd::coll
