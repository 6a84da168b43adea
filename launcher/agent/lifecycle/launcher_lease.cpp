// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/launcher_lease.hpp"

#include "launcher/agent/lifecycle/shared_lease.hpp"
#include "launcher/agent/processes/process_table.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// A look that comes so much later than the lease ended: it was the agent that was stopped.
constexpr auto kOverslept = std::chrono::seconds(1);

}  // namespace

void LauncherLease::renew(std::chrono::milliseconds term) {
    const bool is_other_term = term != lease_.term();
    lease_.renew(term, std::chrono::steady_clock::now());
    show();
    if (is_other_term && ::getppid() == setup_.guard) {
        (void)::kill(setup_.guard, kLeaseSignal);
    }
}

void LauncherLease::check() {
    if (!deadline()) {
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (has_been_heard()) {
        has_told_pause_ = false;
        prolong(now);
    }
    if (!lease_.is_over(now)) {
        return;
    }
    // If it was the agent that was stopped, the launcher's words wait to be read; or the launcher
    // was stopped as long as the agent (a paused container) and will still say something.
    const bool have_overslept = now - *lease_.end() >= kOverslept;
    loop_.run_once(Deadline::in({}));
    if (has_been_heard() || control_.has_ended() || have_overslept) {
        prolong(std::chrono::steady_clock::now());
        return;
    }
    const bool is_stopped = is_launcher_stopped();
    const bool was_stopped = std::exchange(was_stopped_, is_stopped);
    if (is_stopped || was_stopped) {  // one that goes on has a whole lease to say something
        prolong(now);
        if (!std::exchange(has_told_pause_, true)) {
            control_.send(wire::Note{.text =
                                         "horovodrun was stopped for longer than the lease, which "
                                         "rested meanwhile"});
            control_.flush();  // it will be read
        }
        return;
    }
    const auto term = std::chrono::duration<double>(lease_.term()).count();
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(),
                        "the agent has heard nothing of horovodrun for %g s: ending the job", term);
    control_.send(wire::Note{.text = text.data()});
    control_.flush();
    control_.give_up({Errc::unavailable, text.data()});
}

void LauncherLease::extend(TimePoint end) {
    if (lease_.end() && setup_.shared_lease != nullptr) {
        setup_.shared_lease->post(end);
    }
}

bool LauncherLease::has_been_heard() {
    const auto before = std::exchange(heard_bytes_, control_.heard_bytes());
    return before != heard_bytes_;
}

void LauncherLease::prolong(TimePoint now) {
    lease_.heard(now);
    show();
}

void LauncherLease::show() const {
    if (setup_.shared_lease != nullptr) {
        setup_.shared_lease->post(lease_.end());
    }
}

/// By `kill -STOP`, which nobody can announce as Ctrl-Z is. On this machine one can see it: the
/// launcher is the guard's parent. (On others that is sshd, whose stop is a silent host.)
bool LauncherLease::is_launcher_stopped() const {
    if (!is_local_) {
        return false;
    }
    const auto guard = read_process(setup_.guard);
    const auto launcher = guard ? read_process(guard->parent) : std::nullopt;
    return launcher && (launcher->state == 'T' || launcher->state == 't');
}

}  // namespace hvd::launch::agent
