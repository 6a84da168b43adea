// SPDX-License-Identifier: Apache-2.0
//
// The launcher's one loop: everything that waits for a descriptor or for a time waits here.
#pragma once

#include "collectives/base/deadline.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace hvd::launch {

class SimulatedTime;

/// Owns the io_context. The thread that calls `run` is the io thread while it is in there; the
/// handlers that it calls must not block.
class IoThread final {
public:
    IoThread();

    /// In a simulation: `time`, which outlives this object, takes the place of the clock.
    explicit IoThread(SimulatedTime& time);
    ~IoThread();
    IoThread(const IoThread&) = delete;
    IoThread& operator=(const IoThread&) = delete;

    /// Calls handlers until `stop`, or until nothing is left to wait for. May be called again.
    void run();

    /// Makes `run` return after the current handler. Thread: io.
    void stop();

    /// Has `work` called by the io thread. Thread: any.
    void post(std::function<void()> work);

    /// The time that timers go by.
    [[nodiscard]] std::chrono::steady_clock::time_point now() const noexcept;
    [[nodiscard]] Deadline in(std::chrono::steady_clock::duration span) const noexcept {
        return Deadline(now() + span);
    }

    /// Null outside simulations.
    [[nodiscard]] SimulatedTime* simulated_time() const noexcept { return simulated_time_; }

    [[nodiscard]] boost::asio::io_context& context() noexcept { return *context_; }

private:
    std::unique_ptr<boost::asio::io_context> context_;
    SimulatedTime* simulated_time_ = nullptr;
    bool is_stopped_ = false;  // in a simulation
};

}  // namespace hvd::launch
