// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::bench {

/// One side of a comparison: a call that all ranks make.
using Call = std::function<void()>;

/// The largest of all ranks' values, on all of them, which meet there.
using Largest = std::function<double(double)>;

inline double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Two calls by turns, in the same processes. Rank 0 prints lines of "case bytes ours_us theirs_us
/// ratio": medians of the rounds.
class Comparison {
public:
    /// Without `cases` every case is run.
    Comparison(int rounds, bool prints, std::span<char* const> cases, Largest largest)
        : rounds_(rounds),
          prints_(prints),
          cases_(cases.begin(), cases.end()),
          largest_(std::move(largest)) {}

    void run(const std::string& name,
             std::size_t bytes,
             const Call& ours,
             const Call& theirs) const {
        if (!cases_.empty() && std::ranges::find(cases_, name) == cases_.end()) {
            return;
        }
        constexpr double kTurnUs = 20'000;  // a turn takes about this long
        const double slower = std::max(time_of(ours, 3), time_of(theirs, 3));
        const int calls = std::clamp(static_cast<int>(kTurnUs / slower), 1, 5000);
        (void)time_of(ours, calls);
        (void)time_of(theirs, calls);
        std::vector<double> our_times;
        std::vector<double> their_times;
        std::vector<double> ratios;
        for (int round = 0; round < rounds_; ++round) {
            const bool we_begin = round % 2 == 0;
            const double first = time_of(we_begin ? ours : theirs, calls);
            const double second = time_of(we_begin ? theirs : ours, calls);
            our_times.push_back(we_begin ? first : second);
            their_times.push_back(we_begin ? second : first);
            ratios.push_back(our_times.back() / their_times.back());
        }
        if (prints_) {
            std::printf("%s %zu %.3f %.3f %.4f\n", name.c_str(), bytes, median(our_times),
                        median(their_times), median(ratios));
            (void)std::fflush(stdout);
        }
    }

private:
    /// Time of one call in microseconds: of the rank that takes longest.
    [[nodiscard]] double time_of(const Call& call, int calls) const {
        using Clock = std::chrono::steady_clock;
        (void)largest_(0);
        const auto start = Clock::now();
        for (int done = 0; done < calls; ++done) {
            call();
        }
        const auto taken = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        return largest_(taken / calls);
    }

    int rounds_;
    bool prints_;
    std::vector<std::string> cases_;
    Largest largest_;
};

}  // namespace hvd::bench
