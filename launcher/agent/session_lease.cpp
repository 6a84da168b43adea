// SPDX-License-Identifier: Apache-2.0
//
// What the agent does when it hears nothing of the launcher.
#include "launcher/agent/lease_board.hpp"
#include "launcher/agent/session.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

namespace hvd::launch::agent {
namespace {

/// If we look so much later than the lease ended, it was us who were stopped.
constexpr auto kOverslept = std::chrono::seconds(1);

}  // namespace

void Session::check_lease() {
    if (!lease_.end() || control_.has_ended()) {
        return;
    }
    const auto has_been_heard = [this] {
        const auto before = std::exchange(heard_bytes_, control_.heard_bytes());
        return before != heard_bytes_;
    };
    const auto now = std::chrono::steady_clock::now();
    if (has_been_heard()) {
        has_told_pause_ = false;
        lease_.heard(now);
        show_lease();
    }
    if (!lease_.is_over(now)) {
        return;
    }
    // If it was us who were stopped, the launcher's words wait to be read; or it was stopped as
    // long as we were (a paused container) and will say something yet.
    const bool have_overslept = now - *lease_.end() >= kOverslept;
    loop_.run_once(Deadline::in({}));
    if (has_been_heard() || control_.has_ended() || have_overslept) {
        lease_.heard(std::chrono::steady_clock::now());
        show_lease();
        return;
    }
    const bool was_stopped = std::exchange(is_stopped_, is_launcher_stopped());
    if (is_stopped_ || was_stopped) {  // who goes on has a whole lease to say something
        lease_.heard(now);
        show_lease();
        if (!std::exchange(has_told_pause_, true)) {
            note("horovodrun was stopped for longer than the lease, which rested meanwhile");
            control_.flush();  // it will be read
        }
        return;
    }
    const auto term = std::chrono::duration<double>(lease_.term()).count();
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(),
                        "the agent has heard nothing of horovodrun for %g s: ending the job", term);
    note(text.data());
    control_.flush();
    control_.give_up({Errc::unavailable, text.data()});
}

/// To the guard, which ends the job if we no longer can.
void Session::show_lease() {
    if (setup_.lease_board != nullptr) {
        setup_.lease_board->post(lease_.end());
    }
}

/// By `kill -STOP`, which nobody can announce as Ctrl-Z is. On this machine one can see it: the
/// launcher is the guard's parent. (On others that is sshd, whose stop is a silent host.)
bool Session::is_launcher_stopped() const {
    if (!is_local_) {
        return false;
    }
    const auto guard = read_process(setup_.guard);
    const auto launcher = guard ? read_process(guard->parent) : std::nullopt;
    return launcher && (launcher->state == 'T' || launcher->state == 't');
}

}  // namespace hvd::launch::agent
