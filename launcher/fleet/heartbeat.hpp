// SPDX-License-Identifier: Apache-2.0
//
// Failure detector of agents. Pure: its owner reports messages, and learns which hosts
// to ask, to report to the user and to give up.
#pragma once

#include "launcher/fleet/clock_offset.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace hvd::launch {

class Heartbeat final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// A host that is silent for this long is reported to the user, once.
    static constexpr auto kSilence = std::chrono::seconds(5);

    /// A host is asked this often, or eight times in a lease where that is more often. When ranks
    /// start there it is asked at once, and oftener for kQuickQuestions, so that its clock is known
    /// well before something fails; a host that waits for others to link only after kFirstQuestion,
    /// since answers take processor time on which the others may wait.
    static constexpr auto kInterval = std::chrono::seconds(1);
    static constexpr auto kQuickInterval = std::chrono::milliseconds(100);
    static constexpr int kQuickQuestions = 4;
    static constexpr auto kFirstQuestion = std::chrono::milliseconds(250);

    /// Questions that are due so soon after each other go out together.
    static constexpr auto kTogether = std::chrono::milliseconds(20);

    /// If we look so much later than we wanted to, it was us who were stopped.
    static constexpr auto kOverslept = std::chrono::seconds(2);

    /// A lease of 0 never ends.
    Heartbeat(std::chrono::milliseconds lease, std::size_t hosts);

    /// Whether a host is this machine, and so has our clock.
    enum class Clock : std::uint8_t { ours, its_own };

    /// It is asked a little later: on this machine most short jobs end without that.
    void add(std::size_t host, Clock clock, TimePoint now);
    void remove(std::size_t host) noexcept;

    /// Ranks start now. Gives the hosts to ask before that, so that no rank runs without a lease.
    [[nodiscard]] std::vector<std::size_t> hurry(TimePoint now);

    /// Any byte came.
    void heard(std::size_t host, TimePoint now) noexcept;
    void answered(std::size_t host, const wire::Pong& pong, TimePoint now) noexcept;

    struct Due {
        std::vector<std::size_t> ask;
        std::vector<std::size_t> silent;  // for kSilence
        std::vector<std::size_t> lost;    // for the lease; they are removed
    };
    [[nodiscard]] Due due(TimePoint now);

    /// When to call `due` next; nothing while there is nobody to hear.
    [[nodiscard]] std::optional<TimePoint> next() const noexcept;

    /// From now on nobody is given up; `resume` gives everybody a new lease.
    void pause() noexcept { is_paused_ = true; }
    void resume(TimePoint now) noexcept;

    /// The hosts that are heard.
    [[nodiscard]] std::vector<std::size_t> hosts() const;

    [[nodiscard]] std::chrono::milliseconds lease() const noexcept { return lease_; }
    [[nodiscard]] TimePoint heard_at(std::size_t host) const { return hosts_.at(host).heard_at; }
    [[nodiscard]] const ClockOffset& offset(std::size_t host) const {
        return hosts_.at(host).offset;
    }

    /// Whether it was added as another machine.
    [[nodiscard]] bool has_own_clock(std::size_t host) const {
        return hosts_.at(host).has_own_clock;
    }

private:
    struct Host {
        bool is_heard = false;
        bool has_own_clock = false;
        bool was_told_of = false;
        int quick_questions = 0;  // still to be asked
        TimePoint heard_at{};
        TimePoint ask_at{};
        ClockOffset offset;
    };

    [[nodiscard]] TimePoint next_of(const Host& host) const noexcept;
    void ask(Host& host, TimePoint now) const noexcept;
    void start_again(TimePoint now) noexcept;

    std::chrono::milliseconds lease_;
    std::chrono::milliseconds interval_;
    bool is_paused_ = false;
    std::optional<TimePoint> expected_;  // when `due` was to be called
    std::vector<Host> hosts_;
};

}  // namespace hvd::launch
