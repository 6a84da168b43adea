// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <sched.h>

namespace hvd::launch::agent {

/// The CPUs that this process may use, in ascending order.
[[nodiscard]] std::vector<int> allowed_cpus();

/// A set of CPUs as the kernel takes it, however many the machine has.
class CpuMask final {
public:
    explicit CpuMask(std::span<const int> cpus);

    /// Binds the calling thread to the set. False with errno. Async-signal-safe.
    [[nodiscard]] bool pin() const noexcept {
        return ::sched_setaffinity(0, bytes_, set_.get()) == 0;
    }

private:
    struct Free {
        void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
    };

    std::size_t bytes_;
    std::unique_ptr<cpu_set_t, Free> set_;
};

}  // namespace hvd::launch::agent
