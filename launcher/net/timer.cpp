// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/timer.hpp"

#include "launcher/net/asio.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/simulated_time.hpp"

#include <cstdint>
#include <utility>

namespace hvd::launch {

struct Timer::State {
    boost::asio::steady_timer timer;
    // Asio cannot take back a handler that is already queued; an old number makes it void.
    std::uint64_t round = 0;
    std::function<void()> expired;
    SimulatedTime* simulated = nullptr;
    SimulatedTime::Entry entry;  // of simulated time
};

Timer::Timer(IoThread& io)
    : state_(std::make_shared<State>(
          State{boost::asio::steady_timer(io.context()), 0, {}, io.simulated_time(), {}})) {}

Timer::~Timer() {
    cancel();
}

void Timer::set(Deadline deadline, std::function<void()> expired) {
    cancel();
    if (deadline.is_never()) {
        return;
    }
    if (state_->simulated != nullptr) {
        state_->entry = state_->simulated->add(*deadline.end(), std::move(expired));
        return;
    }
    state_->expired = std::move(expired);
    state_->timer.expires_at(*deadline.end());
    state_->timer.async_wait(
        [state = state_, round = state_->round](const boost::system::error_code& error) {
            if (!error && round == state->round) {
                // Moved out first, because the function may set the timer again.
                const auto call = std::exchange(state->expired, nullptr);
                call();
            }
        });
}

void Timer::cancel() {
    if (state_->simulated != nullptr) {
        state_->simulated->remove(state_->entry);
        return;
    }
    ++state_->round;
    state_->expired = nullptr;
    state_->timer.cancel();
}

}  // namespace hvd::launch
