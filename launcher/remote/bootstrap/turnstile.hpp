// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

namespace hvd::launch {

class Turn;

/// Lets a limited number of starts be under way at a time, first come first served. Thread: io.
class Turnstile final {
public:
    explicit Turnstile(std::size_t places) : free_(places) {}

private:
    friend class Turn;
    std::size_t free_;
    std::deque<Turn*> waiting_;
};

/// A place, or the wait for one; given up with its owner.
class Turn final {
public:
    // Shared: a starter may go before the channels it made.
    explicit Turn(std::shared_ptr<Turnstile> turnstile) : turnstile_(std::move(turnstile)) {}
    ~Turn() { give_up(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Calls `enter` once there is a place: at once, or from whoever gives one up. It may destroy
    /// nothing.
    void take(std::function<void()> enter);
    void give_up();

private:
    std::shared_ptr<Turnstile> turnstile_;
    std::function<void()> enter_;  // while it waits
    bool is_in_ = false;
};

}  // namespace hvd::launch
