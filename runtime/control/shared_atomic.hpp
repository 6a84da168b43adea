// SPDX-License-Identifier: Apache-2.0
//
// How the control channel touches memory that ranks share. A simulation of many ranks in one
// process puts another header in the place of this one and switches ranks at every access.
#pragma once

#include <atomic>

namespace hvd::rt {

template <class T>
using SharedAtomic = std::atomic<T>;

/// Orders this rank's stores before its later loads, for all ranks.
inline void shared_fence() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace hvd::rt
