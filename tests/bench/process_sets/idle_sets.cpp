// SPDX-License-Identifier: Apache-2.0
//
// The cost of process sets for ranks that do not use them:
//   horovodrun -np 10 --bind-to none build/release/tests/idle_sets [ROUNDS]
// In each round 0, 16 and then 1,000 sets exist beside the world and the pair {0, 1}; 1,000
// different ones need 10 ranks. Rank 0 prints, for each number, the median time of a blocking
// allreduce of 4 bytes by the world and by the pair, alone, and the median of the rounds' ratios to
// no set; and what a set costs rank 0 in memory and descriptors.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hvd/hvd.hpp"

namespace {

using hvd::Request;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 3> kSets{0, 16, 1000};
constexpr int kRanks = 10;
constexpr hvd::Reduction kSum{.op = hvd::ReduceOp::sum};

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

/// So many different sets of at least two ranks, but for the world and the pair {0, 1}.
std::vector<std::vector<std::int32_t>> make_sets(std::size_t count) {
    std::vector<std::vector<std::int32_t>> sets;
    for (unsigned members = 4; sets.size() < count; ++members) {
        if (std::popcount(members) < 2) {
            continue;
        }
        auto& set = sets.emplace_back();
        for (int rank = 0; rank < kRanks; ++rank) {
            if ((members >> static_cast<unsigned>(rank) & 1U) != 0) {
                set.push_back(rank);
            }
        }
    }
    return sets;
}

/// Of this process, in KiB.
std::size_t resident() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
        if (word == "VmRSS:") {
            std::size_t size = 0;
            file >> size;
            return size;
        }
    }
    return 0;
}

std::size_t descriptors() {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

/// One operation over and over.
class Repeated {
public:
    Repeated(hvd::World& world, const std::string& name, hvd::ProcessSet set)
        : plan_(world.plan(Request::allreduce(name, std::span(&number_, 1), kSum).in(set))) {}
    Repeated(const Repeated&) = delete;
    Repeated& operator=(const Repeated&) = delete;
    ~Repeated() = default;

    /// Microseconds for each call: the best of ten parts, since 10 ranks share few CPUs.
    double time(int calls) {
        double best = std::numeric_limits<double>::max();
        for (int part = 0; part < 10; ++part) {
            const auto start = Clock::now();
            for (int call = 0; call < calls / 10; ++call) {
                plan_.run();
            }
            const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
            best = std::min(best, taken.count() * 10 / calls);
        }
        return best;
    }

private:
    float number_ = 0;
    hvd::Plan plan_;
};

struct Figures {
    std::vector<double> world_us;
    std::vector<double> pair_us;
};

void print(const std::vector<Figures>& figures) {
    const auto ratio = [&](std::size_t index, std::vector<double> Figures::*times) {
        std::vector<double> ratios;
        for (std::size_t round = 0; round < (figures[0].*times).size(); ++round) {
            ratios.push_back((figures[index].*times)[round] / (figures[0].*times)[round]);
        }
        return median(ratios);
    };
    for (std::size_t index = 0; index < kSets.size(); ++index) {
        std::printf("%5zu sets: world %9.3f us (%.3f)   pair %9.3f us (%.3f)\n", kSets[index],
                    median(figures[index].world_us), ratio(index, &Figures::world_us),
                    median(figures[index].pair_us), ratio(index, &Figures::pair_us));
    }
}

void measure(hvd::World& world, int rounds) {
    const std::array<std::int32_t, 2> members{0, 1};
    const auto pair = world.add_process_set(members);
    const auto wanted = make_sets(kSets.back());
    Repeated of_world(world, "world", hvd::ProcessSet{});
    std::vector<Figures> figures(kSets.size());
    std::size_t memory = 0;
    std::size_t files = 0;
    for (int round = 0; round < rounds; ++round) {
        std::vector<hvd::ProcessSet> sets;
        for (std::size_t index = 0; index < kSets.size(); ++index) {
            const auto memory_before = resident();
            const auto files_before = descriptors();
            while (sets.size() < kSets[index]) {
                const auto& ranks = wanted[sets.size()];
                sets.push_back(world.add_process_set(ranks));
                if (std::ranges::find(ranks, world.rank()) != ranks.end()) {
                    world.barrier("first", sets.back());  // it has been used, and is idle now
                }
            }
            if (round == 0) {
                memory = resident() - std::min(memory_before, resident());
                files = descriptors() - files_before;
            }
            (void)of_world.time(20);
            figures[index].world_us.push_back(of_world.time(200));
            if (world.rank() < 2) {
                Repeated of_pair(world, "pair", pair);
                (void)of_pair.time(500);
                figures[index].pair_us.push_back(of_pair.time(20'000));
            }
            world.barrier("measured");  // the others sleep here
        }
        for (const auto set : sets) {
            world.remove_process_set(set);
        }
    }
    if (world.rank() == 0) {
        print(figures);
        std::printf("%zu more sets: %zu KiB, %zu descriptors\n",
                    kSets.back() - kSets[kSets.size() - 2], memory, files);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
    try {
        hvd::InitOptions options;
        options.dynamic_process_sets = true;
        hvd::World world(options);
        if (world.size() != kRanks) {
            (void)std::fprintf(stderr, "idle_sets: run it with -np %d\n", kRanks);
            return 2;
        }
        measure(world, arguments.size() > 1 ? std::atoi(arguments[1]) : 9);
    } catch (const hvd::Failure& failure) {
        (void)std::fprintf(stderr, "idle_sets: %s\n", failure.what());
        return 1;
    }
    return 0;
}
