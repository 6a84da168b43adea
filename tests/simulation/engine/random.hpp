// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd::sim {

/// Numbers that depend on the seed alone (splitmix64).
class Random {
public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t next() noexcept {
        state_ += 0x9e3779b97f4a7c15;
        auto mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31);
    }

    /// From 0 to `count` - 1.
    std::uint64_t below(std::uint64_t count) noexcept { return next() % count; }
    int between(int low, int high) noexcept {
        return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    /// True in one of `count` cases.
    bool one_in(std::uint64_t count) noexcept { return below(count) == 0; }

private:
    std::uint64_t state_;
};

}  // namespace hvd::sim
