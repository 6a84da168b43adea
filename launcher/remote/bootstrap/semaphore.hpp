// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

namespace hvd::launch {

class Permit;

/// Lets a limited number of starts be under way at a time, first come first served. Thread: io.
class Semaphore final {
public:
    explicit Semaphore(std::size_t places) : free_(places) {}

private:
    friend class Permit;
    std::size_t free_;
    std::deque<Permit*> waiting_;
};

/// A place, or the wait for one; given up with its owner.
class Permit final {
public:
    // Shared: a starter may go before the channels it made.
    explicit Permit(std::shared_ptr<Semaphore> semaphore) : semaphore_(std::move(semaphore)) {}
    ~Permit() { give_up(); }
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;

    /// Calls `enter` with the permit: at once, or from the `give_up` of another permit. `enter` may
    /// destroy nothing.
    void take(std::function<void()> enter);
    void give_up();

private:
    std::shared_ptr<Semaphore> semaphore_;
    std::function<void()> enter_;  // while it waits
    bool is_in_ = false;
};

}  // namespace hvd::launch
