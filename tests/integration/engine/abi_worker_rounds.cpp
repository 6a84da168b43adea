// SPDX-License-Identifier: Apache-2.0
//
// Worlds that come and go, and what a process still has of them.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::test {
namespace {

constexpr int kFirstRounds = 20;  // after which everything is there that a process keeps
constexpr long kMorePages = 256;  // of the allocator
#if defined(NDEBUG) && !defined(HVD_SANITIZE_ADDRESS) && !defined(HVD_SANITIZE_THREAD)
constexpr int kRounds = 1000;
constexpr bool kCountsPages = true;
#else
constexpr int kRounds = 200;
constexpr bool kCountsPages = false;  // sanitizers keep what is freed
#endif

long entries_of(const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<long>(std::distance(begin(all), end(all)));
}

/// Shared memory that this process has mapped.
long mapped_segments() {
    std::ifstream maps("/proc/self/maps");
    long count = 0;
    for (std::string line; std::getline(maps, line);) {
        const auto is_in = [&](std::string_view what) {
            return line.find(what) != std::string::npos;
        };
        count += is_in("/dev/shm/") || is_in("/memfd:") ? 1 : 0;
    }
    return count;
}

long resident_pages() {
    long mapped = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> mapped >> resident;
    return resident;
}

struct Holdings {
    static Holdings now() {
        return {.descriptors = entries_of("/proc/self/fd"),
                .threads = entries_of("/proc/self/task"),
                .segments = mapped_segments(),
                .pages = resident_pages()};
    }

    long descriptors = 0;
    long threads = 0;
    long segments = 0;
    long pages = 0;
};

void require_no_more(const char* what, long before, long after, long allowed = 0) {
    require(after <= before + allowed, std::string(what) + ": " + std::to_string(after) +
                                           ", before " + std::to_string(before));
}

void come_and_go() {
    InitOptions options;
    options.process_sets = {{0}};
    options.dynamic_process_sets = true;
    auto world = hvd::init(options);
    std::vector<std::int32_t> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const std::array<std::int32_t, 1> last{all.back()};
    const auto added = world.add_process_set(last);
    std::vector<float> data(10, 1);
    world.allreduce("x", std::span(data), {.op = ReduceOp::sum});
    require(data.front() == static_cast<float>(world.size()), "the sum");
    if (world.rank() == world.size() - 1) {
        world.allreduce("y", std::span(data), {.op = ReduceOp::sum}, added);
    }
    world.barrier("end");
    require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
}

void leave_nothing(int rounds) {
    for (int round = 0; round < kFirstRounds; ++round) {
        come_and_go();
    }
    const auto before = Holdings::now();
    for (int round = kFirstRounds; round < rounds; ++round) {
        come_and_go();
    }
    const auto after = Holdings::now();
    require_no_more("descriptors", before.descriptors, after.descriptors);
    require_no_more("threads", before.threads, after.threads);
    require_no_more("shared segments", before.segments, after.segments);
    if (kCountsPages) {
        require_no_more("pages", before.pages, after.pages, kMorePages);
    }
}

void worlds_leave_nothing() {
    leave_nothing(kRounds);
}

/// Fewer: each takes a twentieth of a second, in which the ranks look for rank 0's port.
void connected_worlds_leave_nothing() {
    leave_nothing(kRounds / 5);
}

}  // namespace

std::map<std::string, void (*)()> round_cases() {
    return {{"worlds_leave_nothing", worlds_leave_nothing},
            {"connected_worlds_leave_nothing", connected_worlds_leave_nothing}};
}

}  // namespace hvd::test
