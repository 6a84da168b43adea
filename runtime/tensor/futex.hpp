// SPDX-License-Identifier: Apache-2.0
//
// Sleeping on a word of memory of this process (futex(2)).
#pragma once

#include "collectives/base/deadline.hpp"

#include <atomic>
#include <cstdint>

namespace hvd::rt {

/// Sleeps while the word is `expected`, up to the deadline. May wake early.
void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                Deadline deadline) noexcept;

/// Wakes all who sleep on the word.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace hvd::rt
