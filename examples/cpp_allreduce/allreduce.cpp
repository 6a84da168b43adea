// SPDX-License-Identifier: Apache-2.0
//
// Sums one array over all ranks and times it: horovodrun -np 4 ./allreduce [FLOATS]
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

constexpr std::size_t kFloats = 1 << 20;
constexpr int kRounds = 20;

/// The number in `text`, or 0 where it is none.
std::size_t parse_count(const char* text) {
    std::size_t count = 0;
    const char* end = text + std::strlen(text);
    const auto [last, error] = std::from_chars(text, end, count);
    return error == std::errc() && last == end ? count : 0;
}

int run(std::size_t floats) {
    auto world = hvd::init();
    const auto mine = static_cast<float>(world.rank());
    const auto expected = static_cast<float>(world.size() * (world.size() - 1) / 2);
    std::vector<float> data(floats, mine);

    // A plan repeats the same operation over the same memory: names and sizes are read once.
    auto plan = world.plan(
        hvd::Request::allreduce("data", std::span(data), hvd::Reduction{.op = hvd::ReduceOp::sum}));
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int round = 0; round < kRounds; ++round) {
        std::ranges::fill(data, mine);
        const auto start = std::chrono::steady_clock::now();
        plan.run();
        fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
    }

    const auto wrong = std::ranges::count_if(data, [=](float sum) { return sum != expected; });
    if (world.rank() == 0) {
        const std::chrono::duration<double, std::milli> time = fastest;
        std::printf("sum of ranks 0 to %d: %g\n", world.size() - 1, double{data.front()});
        std::printf("%zu floats in %.3f ms, fastest of %d\n", floats, time.count(), kRounds);
    }
    return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t floats = argc > 1 ? parse_count(argv[1]) : kFloats;
    if (argc > 2 || floats == 0) {
        std::fprintf(stderr, "usage: allreduce [FLOATS], a number above 0\n");
        return 2;
    }
    try {
        return run(floats);
    } catch (const hvd::Failure& failure) {
        std::fprintf(stderr, "allreduce: %s\n", failure.what());
        return 1;
    }
}
