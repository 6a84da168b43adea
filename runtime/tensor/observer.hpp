// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tensor/operation.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace hvd::rt {

/// A step on the way of an operation.
enum class Moment : std::uint8_t {
    submitted,   // the ranks begin to agree
    agreed,      // all ranks have it: it waits for its lane
    connecting,  // the backend makes a communicator, which it is the first to use
    packing,     // into the memory of a fused message
    started,     // the backend runs it
    unpacking,   // out of that memory
    ended,       // completed, or failed
};

/// Sees what the engine does. The engine has no observer, a null pointer, while nobody looks.
///
/// Thread: progress lock.
class Observer {
public:
    virtual ~Observer() = default;
    Observer(const Observer&) = delete;
    Observer& operator=(const Observer&) = delete;

    /// The tensors reach the moment together. `backend` is that which connects for them or has
    /// started them, else empty.
    virtual void on(Moment moment,
                    std::span<Operation* const> operations,
                    std::string_view backend) = 0;

    /// Rank 0 has read that `rank` announces the tensor.
    virtual void on_announced(int process_set, std::string_view name, int rank) = 0;

    /// The engine takes what callers have submitted.
    virtual void on_cycle() = 0;

protected:
    Observer() = default;
};

}  // namespace hvd::rt
