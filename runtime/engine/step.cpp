// SPDX-License-Identifier: Apache-2.0
//
// The body of the engine's loop: everything here needs the baton.
#include "runtime/engine/engine.hpp"

#include <chrono>
#include <cstddef>
#include <iterator>
#include <new>
#include <utility>

namespace hvd::rt {
namespace {

/// For a collective that a peer which left in the middle of something may have done its part of.
constexpr std::chrono::milliseconds kLeavePatience{300};

Error shut_down_error() {
    return {Errc::aborted, "this rank has shut its runtime down"};
}

}  // namespace

bool Engine::step(Urgency urgency) {
    bool moved = false;
    try {
        moved = take(urgency);
        auto negotiated = negotiate();
        if (negotiated) {
            moved = *negotiated || moved;
        } else {
            break_with(negotiated.error());
        }
        moved = executor_.step() || moved;
        if (executor_.broken() && !broken_) {
            (void)look_for_trouble();  // who has died says more than which link has ended
            if (!broken_) {
                break_with(*executor_.broken());
            }
        }
        moved = moved || look_for_trouble();
    } catch (const Exception& exception) {
        break_with(exception.error());
    } catch (const std::bad_alloc&) {
        break_with({Errc::internal, "out of memory"});
    }
    tickets_.wake_any();
    return moved;
}

/// Lets handlers take what has come. What they cannot do is the end of the world, not of the
/// process.
void Engine::dispatch() {
    try {
        reactor_->dispatch();
    } catch (const Exception& exception) {
        break_with(exception.error());
    } catch (const std::bad_alloc&) {
        break_with({Errc::internal, "out of memory"});
    }
}

bool Engine::take(Urgency urgency) {
    // While a collective runs, what arrives is left to gather: it then travels together.
    if (executor_.busy()) {
        return false;
    }
    inbox_.take(taken_);
    if (taken_.empty()) {
        return false;
    }
    if (broken_) {
        tell_loss();
        fail(taken_, *broken_);
    } else if (may_gather(urgency)) {
        return false;
    } else {
        negotiator_.submit(taken_, urgency);
    }
    taken_.clear();
    gather_until_.reset();
    return true;
}

bool Engine::may_gather(Urgency urgency) {
    if (config_.cycle_time.count() == 0 || urgency == Urgency::awaited) {
        return false;
    }
    std::size_t bytes = 0;
    for (const Operation* head : taken_) {
        for (const Operation* member = head; member != nullptr; member = member->next) {
            bytes += byte_count(member->signature);
        }
    }
    const auto now = Deadline::Clock::now();
    gather_until_ = gather_until_.value_or(now + config_.cycle_time);
    const auto most = negotiator_.fusion_bytes().value_or(executor_.usual_fusion_bytes());
    return bytes < most && now < *gather_until_;
}

Result<bool> Engine::negotiate() {
    bool moved = false;
    while (!broken_) {
        ready_.clear();
        HVD_TRY(const bool again, negotiator_.step(ready_));
        moved = moved || again;
        if (!ready_.empty()) {
            executor_.enqueue(ready_, negotiator_.fusion_bytes());
            break;  // first things first: they are what somebody waits for
        }
        if (!again) {
            break;
        }
    }
    return moved;
}

bool Engine::look_for_trouble() {
    if (broken_) {
        return false;
    }
    if (leaving_ && (!executor_.busy() || Deadline(leave_limit_).has_passed())) {
        // We have finished what was agreed, if it can be: the rest will never come.
        lose(*std::exchange(leaving_, std::nullopt));
        return true;
    }
    const auto trouble = channel_->trouble();
    if (!trouble || (leaving_ && leaving_->in_flight == trouble->in_flight)) {
        return false;
    }
    if (trouble->error.code != Errc::aborted) {
        lose(*trouble);
        return true;
    }
    // What was agreed before it left may still be on its way: look for it once more. Where it had
    // not finished it may wait for the peer, but not for ever.
    leaving_ = trouble;
    if (trouble->in_flight) {
        leave_limit_ = Deadline::in(kLeavePatience).end();
    }
    return true;
}

void Engine::lose(const Channel::Trouble& trouble) {
    const bool has_died = trouble.error.code == Errc::unavailable;
    const bool is_missed = negotiator_.has_open() || executor_.busy() || !taken_.empty();
    lost_ = trouble;
    if (has_died || is_missed) {
        tell_loss();
    }
    break_with(trouble.error);
}

void Engine::tell_loss() {
    if (lost_ && on_peer_lost_) {
        on_peer_lost_(lost_->peer, lost_->error.message);
    }
    lost_.reset();
}

void Engine::break_with(const Error& cause) {
    if (broken_) {
        return;
    }
    broken_ = cause;
    gather_until_.reset();
    leave_limit_.reset();
    cut_off_ = executor_.busy();
    negotiator_.fail_open(cause);
    executor_.abort(cause);
    fail(std::exchange(taken_, {}), cause);
}

void Engine::fail(std::span<Operation* const> heads, const Error& cause) {
    for (Operation* head : heads) {
        for (Operation* member = head; member != nullptr;) {
            Operation* next = member->next;  // read first: the member may be released at once
            member->failed = true;
            member->error = cause;
            tickets_.complete(*member);
            member = next;
        }
    }
}

void Engine::leave() {
    // What is not agreed fails; what all ranks have begun may finish, so that the peers' part of it
    // does too. A peer may yet begin what this rank has said it is ready for: it must not wait.
    const bool has_open = !broken_ && negotiator_.has_open();
    negotiator_.fail_open(shut_down_error());
    Spinner spinner(crowded_.load(std::memory_order_relaxed));
    while (executor_.busy() && !broken_ && !stop_deadline_.has_passed()) {
        if (executor_.step()) {
            spinner.reset();
        } else if (!spinner.pause()) {
            channel_->about_to_sleep(true);
            if (!executor_.step()) {
                (void)reactor_->wait(stop_deadline_);
            }
            channel_->awake();
            dispatch();
        }
    }
    channel_->leave(!executor_.busy() && !cut_off_ && !has_open);
    break_with(shut_down_error());
    inbox_.take(taken_);
    fail(std::exchange(taken_, {}), *broken_);
    tickets_.wake_any();
}

}  // namespace hvd::rt
