// SPDX-License-Identifier: Apache-2.0
//
// The contract of Backend: one file of cases, run for each backend at world sizes 1, 2, 3, 4 and 7
// with forked ranks, and at 2 and 4 with ranks that are threads.
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/integration/backend_contract/operations.hpp"
#include "tests/support/exact_data.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <random>
#include <utility>

namespace hvd::test {
namespace {

using coll::DataType;
using coll::Op;
using coll::ReduceOp;
using coll::Segment;
using coll::Task;

// The borders of the paths that backends have: a cache line, a small slot, a chunk.
constexpr std::size_t kLine = 60;
constexpr std::size_t kSmall = 4096;
constexpr std::size_t kChunk = std::size_t{64} << 10;

enum class Place { in_place, out_of_place };

/// An allreduce of pieces of the given lengths, checked to the bit.
void check_allreduce(ContractRank& self,
                     const ExactCase& what,
                     const std::vector<std::size_t>& lengths,
                     Place place,
                     Runner run = &run_task) {
    Task task{.op = Op::allreduce,
              .reduce = what.op,
              .type = what.type,
              .prescale = what.prescale,
              .postscale = what.postscale};
    std::vector<std::vector<std::byte>> in;
    std::vector<std::vector<std::byte>> out;
    std::size_t first = 0;
    for (const auto length : lengths) {
        in.push_back(exact_inputs(what, self.rank, length, first));
        out.emplace_back(place == Place::in_place ? 0 : in.back().size(), std::byte{0xee});
        first += length;
    }
    const auto before = in;
    for (std::size_t index = 0; index < lengths.size(); ++index) {
        auto* const to = place == Place::in_place ? in[index].data() : out[index].data();
        task.segments.push_back({.in = in[index].data(), .out = to, .count = lengths[index]});
    }

    run(self, task);

    first = 0;
    for (std::size_t index = 0; index < lengths.size(); ++index) {
        const auto wrong =
            differs_from_result(what, task.segments[index].out, lengths[index], first);
        expect(wrong.empty(), "segment " + std::to_string(index) + ": " + wrong);
        first += lengths[index];
    }
    expect(place == Place::in_place || in == before, "an input changed");
}

/// An allgather of pieces; `length(rank, piece)` elements each.
template <class Length>
void check_allgather(ContractRank& self,
                     std::size_t pieces,
                     DataType type,
                     Length length,
                     Runner run = &run_task) {
    Task task{.op = Op::allgather, .type = type};
    const std::size_t bytes = coll::size_of(type);
    std::vector<std::vector<std::byte>> in(pieces);
    std::vector<std::vector<std::byte>> out(pieces);
    std::vector<std::vector<std::byte>> expected(pieces);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        Segment segment;
        for (int rank = 0; rank < self.size; ++rank) {
            segment.counts.push_back(length(rank, piece));
            for (std::size_t index = 0; index < segment.counts.back() * bytes; ++index) {
                const auto value = pattern(rank, index, piece);
                expected[piece].push_back(value);
                if (rank == self.rank) {
                    in[piece].push_back(value);
                }
            }
        }
        out[piece].resize(expected[piece].size());
        segment.in = in[piece].data();
        segment.out = out[piece].data();
        segment.count = segment.counts[static_cast<std::size_t>(self.rank)];
        task.segments.push_back(std::move(segment));
    }

    run(self, task);

    expect(out == expected, "allgather gave other bytes");
}

void check_broadcast(ContractRank& self,
                     int root,
                     const std::vector<std::size_t>& lengths,
                     Place place,
                     Runner run = &run_task) {
    Task task{.op = Op::broadcast, .type = DataType::u8, .root = root};
    std::vector<std::vector<std::byte>> in;
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> expected;
    for (const auto length : lengths) {
        auto& mine = in.emplace_back(length);
        auto& roots = expected.emplace_back(length);
        for (std::size_t index = 0; index < length; ++index) {
            mine[index] = pattern(self.rank, index, length);
            roots[index] = pattern(root, index, length);
        }
        out.emplace_back(length);
    }
    for (std::size_t index = 0; index < lengths.size(); ++index) {
        auto* const to = place == Place::in_place ? in[index].data() : out[index].data();
        task.segments.push_back({.in = in[index].data(), .out = to, .count = lengths[index]});
    }

    run(self, task);

    expect((place == Place::in_place ? in : out) == expected, "broadcast gave other bytes");
}

void allreduce_at_every_size(ContractRank& self) {
    const ExactCase what{.size = self.size};
    for (const std::size_t border : {std::size_t{4}, kLine, kSmall, kChunk, 4 * kChunk}) {
        for (const std::size_t count : {border / 4 - 1, border / 4, border / 4 + 1}) {
            check_allreduce(self, what, {count}, Place::in_place);
            check_allreduce(self, what, {count}, Place::out_of_place);
        }
    }
    check_allreduce(self, what, {300'001}, Place::in_place);
    check_allreduce(self, what, {2'000'003}, Place::in_place);  // several rounds over tcp
}

void allreduce_of_every_type(ContractRank& self) {
    for (const auto type : kAllTypes) {
        for (const auto op : kAllReduceOps) {
            if (type == DataType::boolean && op == ReduceOp::average) {
                continue;
            }
            const ExactCase what{.type = type, .op = op, .size = self.size};
            for (const std::size_t count : {1U, 5U, 67U, 1501U, 20'003U}) {
                check_allreduce(self, what, {count}, Place::out_of_place);
            }
        }
    }
}

void allreduce_with_factors(ContractRank& self) {
    using Factors = std::pair<double, double>;
    constexpr std::array kFactors{Factors{0.5, 1}, Factors{1, 2}, Factors{0.5, 2}, Factors{1, 0.5}};
    for (const auto type : kAllTypes) {
        for (const auto op : kAllReduceOps) {
            if (type == DataType::boolean && op == ReduceOp::average) {
                continue;
            }
            for (const auto& [prescale, postscale] : kFactors) {
                // Half of a sum is not whole, so only integers, which cut it, have one result.
                if (postscale < 1 && type >= DataType::f16) {
                    continue;
                }
                const ExactCase what{.type = type,
                                     .op = op,
                                     .size = self.size,
                                     .prescale = prescale,
                                     .postscale = postscale};
                check_allreduce(self, what, {3}, Place::in_place);
                check_allreduce(self, what, {3000}, Place::out_of_place);
            }
        }
    }
}

void allreduce_of_lists(ContractRank& self) {
    const ExactCase what{.type = DataType::i32, .size = self.size};
    for (const auto place : {Place::in_place, Place::out_of_place}) {
        check_allreduce(self, what, {}, place);
        check_allreduce(self, what, {0, 0}, place);
        check_allreduce(self, what, {1, 0, 2, 3}, place);
        check_allreduce(self, what, {100, 1, 0, 700}, place);
        check_allreduce(self, what, {kChunk / 4, 1, kChunk / 4 - 1, 0, 5}, place);
        check_allreduce(self, what, std::vector<std::size_t>(1000, 64), place);
        check_allreduce(self, what, {1, 200'000, 3}, place);
        check_allreduce(self, what, {300'001, 1, 700'003, 2}, place);
    }
}

void allgather_of_unequal_parts(ContractRank& self) {
    const auto equal = [](std::size_t count) {
        return [count](int, std::size_t) { return count; };
    };
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kLine, kLine + 1, kSmall,
                                    kSmall + 1, kChunk - 1, kChunk, kChunk + 1, 5 * kChunk + 3}) {
        check_allgather(self, 1, DataType::u8, equal(count));
    }
    const auto rising = [](int rank, std::size_t piece) {
        return static_cast<std::size_t>(rank) * (piece + 1);
    };
    check_allgather(self, 3, DataType::f64, rising);
    const auto only_the_last = [&](int rank, std::size_t) {
        return rank == self.size - 1 ? std::size_t{100'000} : std::size_t{0};
    };
    check_allgather(self, 2, DataType::i32, only_the_last);
    const auto mixed = [](int rank, std::size_t piece) {
        return (static_cast<std::size_t>(rank) * 7919 + piece * 104729) % 30'000;
    };
    check_allgather(self, 5, DataType::f16, mixed);
}

void broadcast_from_every_root(ContractRank& self) {
    for (int root = 0; root < self.size; ++root) {
        for (const auto place : {Place::in_place, Place::out_of_place}) {
            for (const std::size_t length :
                 {std::size_t{1}, kLine + 1, kSmall, kSmall + 1, kChunk + 1, 6 * kChunk + 5}) {
                check_broadcast(self, root, {length}, place);
            }
            check_broadcast(self, root, {0, 3, kChunk, 17, 0}, place);
        }
    }
}

void barrier_holds_everybody(ContractRank& self) {
    for (std::uint64_t round = 1; round <= 200; ++round) {
        self.shared(0).fetch_add(1, std::memory_order_relaxed);
        run_task(self, Task{.op = Op::barrier});
        const auto came = self.shared(0).load(std::memory_order_relaxed);
        expect(came >= round * static_cast<std::uint64_t>(self.size), "a rank passed too early");
    }
}

/// The same tasks on all ranks in the same order, but late ranks and mixed paths.
void many_random_tasks(ContractRank& self) {
    std::minstd_rand common(20'261'121);  // the same numbers on every rank
    std::minstd_rand own(static_cast<unsigned>(self.rank) + 1);
    const auto draw = [&](std::size_t below) { return common() % below; };
    for (int task = 0; task < 200; ++task) {
        for (auto pause = own() % 16 == 0 ? own() % 50 : 0; pause > 0; --pause) {
            sched_yield();
        }
        const std::size_t limit = draw(8) == 0 ? 60'000 : draw(2) == 0 ? 3000 : 12;
        const auto place = draw(2) == 0 ? Place::in_place : Place::out_of_place;
        std::vector<std::size_t> lengths(1 + (draw(3) == 0 ? draw(20) : 0));
        for (auto& length : lengths) {
            length = draw(limit / lengths.size() + 2);
        }
        switch (draw(8)) {
            case 0: run_task(self, Task{.op = Op::barrier}); break;
            case 1:
                check_broadcast(self, static_cast<int>(draw(static_cast<std::size_t>(self.size))),
                                lengths, place);
                break;
            case 2: {
                const std::size_t step = draw(limit) + 1;
                check_allgather(self, lengths.size(), DataType::u16,
                                [&](int rank, std::size_t piece) {
                                    return (static_cast<std::size_t>(rank) + piece) * step % limit;
                                });
                break;
            }
            default: {
                const ExactCase what{.type = draw(2) == 0 ? DataType::f32 : DataType::bf16,
                                     .size = self.size,
                                     .seed = draw(1000)};
                check_allreduce(self, what, lengths, place);
            }
        }
    }
}

void ranks_that_sleep_are_woken(ContractRank& self) {
    const ExactCase what{.size = self.size};
    for (int round = 0; round < 5; ++round) {
        for (const std::size_t count : {1U, 500U, 5000U, 100'000U}) {
            check_allreduce(self, what, {count}, Place::in_place, &run_task_asleep);
            check_broadcast(self, self.size - 1, {count}, Place::in_place, &run_task_asleep);
            check_allgather(
                self, 1, DataType::u8, [&](int, std::size_t) { return count; }, &run_task_asleep);
        }
        run_task_asleep(self, Task{.op = Op::barrier});
    }
}

/// In whatever order the ranks are added up.
void sums_have_the_same_bits_everywhere(ContractRank& self) {
    for (const auto type : {DataType::f32, DataType::f16}) {
        std::mt19937 random(static_cast<unsigned>(self.rank) + 3);
        std::vector<std::uint16_t> values(200'000);
        for (auto& value : values) {
            // Of usual size in either type: as f32, every second number is the upper half of one.
            value = static_cast<std::uint16_t>(0x3c00 + random() % 0x800);
        }
        auto* const bytes = reinterpret_cast<std::byte*>(values.data());
        const auto reduce = [&](DataType as, coll::ReduceOp op, std::byte* out) {
            const auto count = values.size() * sizeof values.front() / coll::size_of(as);
            run_task(self, Task{.op = Op::allreduce,
                                .reduce = op,
                                .type = as,
                                .segments = {{.in = bytes, .out = out, .count = count}}});
        };
        reduce(type, coll::ReduceOp::sum, bytes);
        for (const auto op : {coll::ReduceOp::min, coll::ReduceOp::max}) {
            std::vector<std::uint16_t> most(values.size());
            reduce(DataType::i32, op, reinterpret_cast<std::byte*>(most.data()));
            expect(most == values, "another rank has other bits");
        }
    }
}

/// Rounding shows the order of a sum; so bits are compared with a sum in rank order.
void sums_are_in_rank_order(ContractRank& self) {
    if (self.sums != coll::SumOrder::by_rank) {
        return;
    }
    constexpr std::size_t kCount = 50'000;
    constexpr std::size_t kMostPieces = 300;
    std::vector<float> expected(kCount);
    std::vector<float> input(kCount);
    for (int rank = 0; rank < self.size; ++rank) {
        std::mt19937 random(static_cast<unsigned>(rank) + 7);
        std::normal_distribution<float> normal(0, 100);
        for (std::size_t index = 0; index < kCount; ++index) {
            const float value = normal(random);
            expected[index] = rank == 0 ? value : expected[index] + value;
            if (rank == self.rank) {
                input[index] = value;
            }
        }
    }
    for (const std::size_t piece : {std::size_t{9}, std::size_t{800}, std::size_t{1500}, kCount}) {
        std::vector<float> whole(kCount);
        std::vector<float> listed(kCount);
        Task list{.op = Op::allreduce};
        const std::size_t end = std::min(kCount, piece * kMostPieces);
        for (std::size_t first = 0; first < end; first += piece) {
            const Segment segment{.in = reinterpret_cast<const std::byte*>(&input[first]),
                                  .out = reinterpret_cast<std::byte*>(&whole[first]),
                                  .count = std::min(piece, end - first)};
            run_task(self, Task{.op = Op::allreduce, .segments = {segment}});
            list.segments.push_back(segment);
            list.segments.back().out = reinterpret_cast<std::byte*>(&listed[first]);
        }
        run_task(self, list);
        const std::size_t bytes = end * sizeof(float);
        expect(std::memcmp(whole.data(), expected.data(), bytes) == 0,
               "pieces of " + std::to_string(piece) + " give other bits");
        expect(std::memcmp(listed.data(), expected.data(), bytes) == 0,
               "a list of pieces of " + std::to_string(piece) + " gives other bits");
    }
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): a test case for each way to be a rank
#define HVD_CONTRACT(rule, function)                \
    TEST_CASE("backend contract: " rule) {          \
        run_on_processes(&(function));              \
    }                                               \
    TEST_CASE("backend contract, threads: " rule) { \
        run_on_threads(&(function));                \
    }

HVD_CONTRACT("allreduce is exact at every size, in place and not", allreduce_at_every_size)
HVD_CONTRACT("allreduce is exact for every type and operation", allreduce_of_every_type)
HVD_CONTRACT("factors apply once to inputs and once to the result", allreduce_with_factors)
HVD_CONTRACT("a list of segments is reduced like one tensor", allreduce_of_lists)
HVD_CONTRACT("allgather takes a different length from every rank", allgather_of_unequal_parts)
HVD_CONTRACT("broadcast gives everybody the root's bytes", broadcast_from_every_root)
HVD_CONTRACT("nobody leaves a barrier before all have come", barrier_holds_everybody)
HVD_CONTRACT("tasks of mixed sizes and late ranks never mix up data", many_random_tasks)
HVD_CONTRACT("a sleeping rank is woken", ranks_that_sleep_are_woken)
HVD_CONTRACT("bits depend on the ranks' order alone", sums_are_in_rank_order)
HVD_CONTRACT("all ranks get the same bits", sums_have_the_same_bits_everywhere)

}  // namespace hvd::test
