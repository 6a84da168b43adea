// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/affinity.hpp"

#include <algorithm>

namespace hvd::launch::agent {
namespace {

int size_for(std::span<const int> cpus) {
    return cpus.empty() ? 1 : std::ranges::max(cpus) + 1;
}

}  // namespace

std::vector<int> allowed_cpus() {
    // The kernel refuses a set that is smaller than its own.
    constexpr std::size_t kMaxCpus = std::size_t{1} << 16;
    for (std::size_t size = CPU_SETSIZE; size <= kMaxCpus; size *= 2) {
        std::vector<cpu_set_t> set(size / CPU_SETSIZE);
        const auto bytes = CPU_ALLOC_SIZE(size);
        if (::sched_getaffinity(0, bytes, set.data()) != 0) {
            continue;
        }
        std::vector<int> cpus;
        for (std::size_t cpu = 0; cpu < size; ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, set.data())) {
                cpus.push_back(static_cast<int>(cpu));
            }
        }
        return cpus;
    }
    return {};
}

CpuMask::CpuMask(std::span<const int> cpus)
    : bytes_(CPU_ALLOC_SIZE(size_for(cpus))), set_(CPU_ALLOC(size_for(cpus))) {
    CPU_ZERO_S(bytes_, set_.get());
    for (const int cpu : cpus) {
        CPU_SET_S(static_cast<std::size_t>(cpu), bytes_, set_.get());
    }
}

}  // namespace hvd::launch::agent
