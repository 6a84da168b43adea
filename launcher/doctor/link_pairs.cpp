// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_pairs.hpp"

#include <numeric>

namespace hvd::launch {

std::size_t count_pairs(std::size_t hosts) noexcept {
    return hosts * (hosts - (hosts == 0 ? 0 : 1)) / 2;
}

std::vector<HostPair> choose_pairs(std::size_t hosts) {
    std::vector<HostPair> pairs;
    if (hosts <= kMostHostsOfAllPairs) {
        for (std::size_t a = 0; a < hosts; ++a) {
            for (std::size_t b = a + 1; b < hosts; ++b) {
                pairs.emplace_back(a, b);
            }
        }
        return pairs;
    }
    for (std::size_t a = 0; a + 1 < hosts; ++a) {
        pairs.emplace_back(a, a + 1);
    }
    pairs.emplace_back(0, hosts - 1);
    const auto half = hosts / 2;
    for (std::size_t a = 0; a < half; ++a) {
        pairs.emplace_back(a, a + half);
    }
    return pairs;
}

PairSchedule::PairSchedule(std::vector<HostPair> pairs, std::size_t hosts)
    : pairs_(std::move(pairs)), waiting_(pairs_.size()), is_busy_(hosts) {
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
}

std::vector<std::size_t> PairSchedule::begin() {
    std::vector<std::size_t> begun;
    std::erase_if(waiting_, [&](std::size_t index) {
        const auto& [a, b] = pairs_[index];
        if (is_busy_[a] || is_busy_[b]) {
            return false;
        }
        is_busy_[a] = true;
        is_busy_[b] = true;
        begun.push_back(index);
        return true;
    });
    under_way_ += begun.size();
    return begun;
}

void PairSchedule::end(std::size_t pair) {
    const auto& [a, b] = pairs_.at(pair);
    is_busy_[a] = false;
    is_busy_[b] = false;
    --under_way_;
}

}  // namespace hvd::launch
