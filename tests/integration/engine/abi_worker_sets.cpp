// SPDX-License-Identifier: Apache-2.0
//
// Process sets, and the operations that give each rank another result, through the C++ API.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {
namespace {

using Ranks = std::vector<std::int32_t>;

void require_status(hvd_status wanted, hvd_status status, const std::string& message) {
    require(status == wanted, message + " gave " + std::to_string(status));
}

hvd_process_set raw_set(const Ranks& ranks) {
    hvd_process_set set{};
    set.struct_size = sizeof set;
    set.ranks = ranks.data();
    set.count = ranks.size();
    return set;
}

/// The members have their sum; a rank that is no member is refused at the call.
void check_set(World& world, ProcessSet set, const Ranks& members) {
    const std::string name = "sum in set " + std::to_string(set.id);
    require(world.ranks_of(set) == members, name + ": its ranks");
    std::vector<float> data{static_cast<float>(world.rank() + 1)};
    if (std::ranges::find(members, world.rank()) != members.end()) {
        world.allreduce(name, std::span(data), {.op = ReduceOp::sum}, set);
        const auto sum =
            std::accumulate(members.begin(), members.end(), 0) + static_cast<int>(members.size());
        require(data.front() == static_cast<float>(sum), name);
        return;
    }
    try {
        world.allreduce(name, std::span(data), {}, set);
        require(false, name + ": of no member");
    } catch (const Failure& failure) {
        require(failure.status() == HVD_INVALID_ARGUMENT, name + ": the refusal");
    }
}

/// Sets that hvd_init makes, and that are made later; equal, wrong and unknown ones.
void process_sets() {
    InitOptions options;
    options.process_sets = {{0}};
    options.dynamic_process_sets = true;
    auto world = hvd::init(options);
    check_set(world, {.id = 1}, {0});
    const Ranks last{world.size() - 2, world.size() - 1};
    const auto set = world.add_process_set(last);
    check_set(world, set, last);
    require(world.process_sets() == std::vector<ProcessSet>{{0}, {1}, set}, "all ids");

    std::int32_t id = -1;
    const auto equal = raw_set(last);
    require_status(HVD_INVALID_ARGUMENT, hvd_process_set_add(world.context(), &equal, -1, &id),
                   "an equal set");
    require(id == set.id, "its id");
    const auto everybody = world.ranks_of({});
    for (const Ranks& wrong : {Ranks{0, world.size()}, Ranks{0, 0}, Ranks{-1}, Ranks{}}) {
        const auto refused = raw_set(wrong);
        require_status(HVD_INVALID_ARGUMENT,
                       hvd_process_set_add(world.context(), &refused, -1, &id), "wrong ranks");
    }
    require_status(HVD_INVALID_ARGUMENT, hvd_process_set_remove(world.context(), 0, -1),
                   "removing the world");
    require_status(HVD_INVALID_ARGUMENT, hvd_process_set_remove(world.context(), 17, -1),
                   "removing what is not there");

    world.remove_process_set(set);
    require(world.process_sets() == std::vector<ProcessSet>{{0}, {1}}, "ids after removal");
    std::size_t count = 0;
    require_status(HVD_INVALID_ARGUMENT,
                   hvd_process_set_ranks(world.context(), set.id, nullptr, 0, &count), "its ranks");
    check_set(world, {}, everybody);
}

void fixed_process_sets() {
    auto world = hvd::init();
    const Ranks first{0};
    const auto members = raw_set(first);
    std::int32_t id = 0;
    require_status(HVD_UNSUPPORTED, hvd_process_set_add(world.context(), &members, -1, &id), "add");
    require_status(HVD_UNSUPPORTED, hvd_process_set_remove(world.context(), 1, -1), "remove");
    std::size_t count = 0;
    std::int32_t number = 7;
    require_status(HVD_OK, hvd_process_set_ids(world.context(), nullptr, 0, &count), "ids");
    require(count == 1, "the world alone");
    require_status(HVD_INVALID_ARGUMENT, hvd_process_set_ids(world.context(), nullptr, 1, &count),
                   "no place");
    require_status(HVD_OK, hvd_process_set_ranks(world.context(), 0, &number, 1, &count), "ranks");
    require(count == static_cast<std::size_t>(world.size()) && number == 0, "ranks of the world");
}

using Rows = std::vector<hvd_metrics>;

/// The result of hvd_metrics_of for so many rows of which the first has this struct_size.
hvd_status list_metrics(World& world, Rows& rows, std::size_t struct_size, std::size_t& count) {
    if (!rows.empty()) {
        rows.front().struct_size = struct_size;
    }
    return hvd_metrics_of(world.context(), rows.data(), rows.size(), &count);
}

const hvd_metrics& row_of(const Rows& rows, std::int32_t set, std::int32_t op) {
    const auto row = std::ranges::find_if(
        rows, [&](const auto& each) { return each.process_set == set && each.op == op; });
    require(row != rows.end(), "no row of an operation");
    return *row;
}

void check_figures(const hvd_metrics& row, std::uint64_t operations, std::uint64_t bytes) {
    require(row.operations == operations && row.bytes == bytes, "operations and bytes of a row");
    require(row.collectives > 0 && row.collectives <= operations, "messages of a row");
    require(row.timed > 0 && row.timed <= row.collectives, "measured messages of a row");
    require(row.largest <= bytes && row.waits <= operations, "largest and waits of a row");
}

/// Fewer rows than there are, none, and rows of another size than the library's.
void check_places(World& world, std::size_t all) {
    std::size_t count = 0;
    constexpr auto kSize = sizeof(hvd_metrics);
    Rows rows(1);
    require_status(HVD_OK, list_metrics(world, rows, kSize, count), "metrics with room for one");
    require(count == all && rows.front().process_set == 0, "their number, and the first");
    require_status(HVD_INVALID_ARGUMENT, list_metrics(world, rows, kSize - 1, count),
                   "a short row");
    require_status(HVD_INVALID_ARGUMENT, hvd_metrics_of(world.context(), nullptr, 1, &count),
                   "no place");
    require_status(HVD_INVALID_ARGUMENT, hvd_metrics_of(world.context(), rows.data(), 1, nullptr),
                   "no number");

    constexpr std::size_t kLarger = kSize + 16;
    std::vector<std::byte> memory(kLarger * all);
    auto* const first = reinterpret_cast<hvd_metrics*>(memory.data());
    first->struct_size = kLarger;
    require_status(HVD_OK, hvd_metrics_of(world.context(), first, all, &count), "larger rows");
    hvd_metrics last{};
    std::memcpy(&last, memory.data() + (all - 1) * kLarger, kSize);
    require(last.struct_size == kLarger && last.operations > 0, "the last of them");
    require(std::ranges::all_of(std::span(memory).last(16),
                                [](auto each) { return each == std::byte{0}; }),
            "what is behind it");
}

/// Whether any waits were measured is open.
void check_arrivals(World& world) {
    std::size_t count = 0;
    require_status(HVD_OK, hvd_arrivals_of(world.context(), nullptr, 0, &count), "arrivals");
    std::vector<hvd_arrivals> rows(count + 1);
    rows.front().struct_size = sizeof(hvd_arrivals);
    require_status(HVD_OK, hvd_arrivals_of(world.context(), rows.data(), count + 1, &count),
                   "rows of arrivals");
    require(count < rows.size(), "as many as before");
    for (const auto& row : std::span(rows).first(count)) {
        require(row.rank >= 0 && row.rank < world.size() && row.times > 0, "a row of arrivals");
    }
    require_status(HVD_INVALID_ARGUMENT, hvd_arrivals_of(world.context(), nullptr, 1, &count),
                   "no place for arrivals");
}

/// The figures of two operations in the world, and of one in a set of this rank alone.
void metrics() {
    InitOptions options;
    options.process_sets = {{0}};
    auto world = hvd::init(options);
    Rows rows;
    std::size_t count = 7;
    require_status(HVD_OK, list_metrics(world, rows, 0, count), "metrics of nothing");
    require(count == 0, "no operation yet");

    std::vector<float> data(6, 1);
    const auto sum = [&](ProcessSet set, std::size_t elements) {
        world.allreduce("sum", std::span(data).first(elements), {.op = ReduceOp::sum}, set);
    };
    for (std::size_t elements = 1; elements <= 3; ++elements) {
        sum({}, elements);
    }
    world.barrier("all");
    const bool is_member = world.rank() == 0;
    if (is_member) {
        sum({.id = 1}, 6);
    }

    require_status(HVD_OK, list_metrics(world, rows, 0, count), "their number");
    require(count == (is_member ? 3U : 2U), "a row for each set and operation");
    rows.resize(count);
    require_status(HVD_OK, list_metrics(world, rows, sizeof(hvd_metrics), count), "metrics");
    require(std::ranges::is_sorted(
                rows, {}, [](const auto& row) { return std::pair(row.process_set, row.op); }),
            "their order");
    check_arrivals(world);
    check_figures(row_of(rows, 0, HVD_ALLREDUCE), 3, 6 * sizeof(float));
    check_figures(row_of(rows, 0, HVD_BARRIER), 1, 0);
    if (is_member) {
        check_figures(row_of(rows, 1, HVD_ALLREDUCE), 1, 6 * sizeof(float));
    }
    check_places(world, count);
    world.barrier("no rank has left before");
}

/// Rank r sends r + 1 times its place in the sequence to each rank, and one element to nobody.
void alltoall(World& world) {
    const auto size = static_cast<std::size_t>(world.size());
    const auto share = static_cast<std::int64_t>(world.rank()) + 1;
    const std::vector<std::int64_t> splits(size, share);
    std::vector<std::int32_t> data(size * static_cast<std::size_t>(share) + 1);
    std::iota(data.begin(), data.end(), 100 * world.rank());
    const auto pending = world.run(Request::alltoall("uneven", std::span(data), splits));
    const auto received = pending.received_splits();
    std::vector<std::int32_t> expected;
    for (int from = 0; from < world.size(); ++from) {
        require(received[static_cast<std::size_t>(from)] == from + 1, "received splits");
        for (int index = 0; index <= from; ++index) {
            expected.push_back(100 * from + world.rank() * (from + 1) + index);
        }
    }
    require(received.size() == size, "as many splits as ranks");
    require(std::ranges::equal(pending.result<std::int32_t>(), expected), "what was received");

    data.assign(2 * size, world.rank());
    const auto even = world.alltoall("even", std::span(data));
    require(even.size() == 2 * size && even.front() == 0 && even.back() == world.size() - 1,
            "even");
}

/// One element more than ranks: the first rank gets two.
void reducescatter(World& world) {
    std::vector<std::int32_t> data(static_cast<std::size_t>(world.size()) + 1);
    std::iota(data.begin(), data.end(), 1);
    const auto mine = world.reducescatter("shares", std::span(data), {.op = ReduceOp::sum});
    const int first = world.rank() == 0 ? 1 : world.rank() + 2;
    require(mine.size() == (world.rank() == 0 ? 2U : 1U), "uneven shares");
    require(mine.front() == first * world.size(), "sums");
}

void operations_by_rank() {
    auto world = hvd::init();
    alltoall(world);
    reducescatter(world);
    std::vector<double> same(5, 2);
    world.allreduce("adasum", std::span(same), {.op = ReduceOp::adasum});
    require(same.back() == 2, "Adasum of equal vectors");

    // Rank r has r batches.
    for (int batch = 0; batch < world.rank(); ++batch) {
        std::vector<float> gradient{1};
        world.allreduce("gradient", std::span(gradient), {.op = ReduceOp::sum});
        require(gradient.front() == static_cast<float>(world.size() - batch - 1), "who is left");
    }
    require(world.join() == world.size() - 1, "the rank that joined last");
    world.barrier("after all have joined");
}

/// The ranks of a host have the average of their tensors.
void adasum_across_hosts() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this process has one thread
    (void)::setenv("HOROVOD_ADASUM_HIERARCHICAL", "1", 1);
    auto world = hvd::init();
    for (const std::size_t count : {3U, 100'000U}) {
        std::vector<float> mine(count, static_cast<float>(world.rank() + 1));
        world.allreduce("adasum", std::span(mine), {.op = ReduceOp::adasum});
        require(mine.back() == static_cast<float>(world.size() + 1) / 2, "the average");
    }
    world.barrier("end");
}

/// Where ranks have different settings the error names both.
void adasum_differs() {
    // NOLINTBEGIN(concurrency-mt-unsafe): this process has one thread
    if (std::string(std::getenv("PMI_RANK")) == "0") {
        (void)::setenv("HOROVOD_ADASUM_HIERARCHICAL", "1", 1);
    }
    // NOLINTEND(concurrency-mt-unsafe)
    auto world = hvd::init();
    std::vector<float> mine(3, 1);
    std::string message;
    try {
        world.allreduce("adasum", std::span(mine), {.op = ReduceOp::adasum});
    } catch (const Failure& failure) {
        message = failure.what();
    }
    require(message.find("adasum across hosts (HOROVOD_ADASUM_HIERARCHICAL=1) on rank 0") !=
                std::string::npos,
            "'" + message + "' says who differs");
    world.barrier("end");
}

}  // namespace

std::map<std::string, void (*)()> set_cases() {
    return {{"process_sets", process_sets},
            {"fixed_process_sets", fixed_process_sets},
            {"metrics", metrics},
            {"operations_by_rank", operations_by_rank},
            {"adasum_across_hosts", adasum_across_hosts},
            {"adasum_differs", adasum_differs}};
}

}  // namespace hvd::test
