// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace hvd::coll {

/// Fetches a cache line for writing: it then leaves the other CPU at once, and not a second time
/// when we write. The instruction does nothing on CPUs that do not know it.
inline void take_line(const std::byte* line) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*line));  // NOLINT(hicpp-no-assembler): no portable form
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

inline void take_lines(const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < bytes; at += kLine) {
        take_line(from + at);
    }
}

/// Copies out of lines that another CPU has written and that this one will write next.
inline void copy_taking(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t kAhead = 1024;
    take_lines(from, std::min(bytes, kAhead));
    for (std::size_t at = 0; at < bytes; at += kAhead) {
        const std::size_t size = std::min(kAhead, bytes - at);
        const std::size_t next = at + size;
        take_lines(from + next, std::min(kAhead, bytes - next));
        std::memcpy(to + at, from + at, size);
    }
}

}  // namespace hvd::coll
