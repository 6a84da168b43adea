// SPDX-License-Identifier: Apache-2.0
//
// The contract of Backend: alltoall, reducescatter, Adasum, and averages with a divisor.
#include "tests/integration/backend_contract/operations.hpp"

#include "collectives/reduce/half.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/support/exact_data.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace hvd::test {

using coll::DataType;
using coll::Op;
using coll::ReduceOp;
using coll::Segment;
using coll::Task;

namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

[[nodiscard]] std::size_t at(int index) {
    return static_cast<std::size_t>(index);
}

}  // namespace

void check_alltoall(ContractRank& self, const AlltoallCase& what, Runner run) {
    const auto bytes = coll::size_of(what.type);
    Task task{.op = Op::alltoall, .type = what.type};
    std::vector<std::vector<std::byte>> in(what.pieces);
    std::vector<std::vector<std::byte>> out(what.pieces);
    std::vector<std::vector<std::byte>> expected(what.pieces);
    for (std::size_t piece = 0; piece < what.pieces; ++piece) {
        Segment segment;
        for (int peer = 0; peer < self.size; ++peer) {
            const auto sent = what.count(self.rank, peer, piece);
            const auto received = what.count(peer, self.rank, piece);
            segment.send_counts.push_back(sent);
            segment.counts.push_back(received);
            for (std::size_t index = 0; index < sent * bytes; ++index) {
                in[piece].push_back(pattern(self.rank * 64 + peer, index, piece));
            }
            for (std::size_t index = 0; index < received * bytes; ++index) {
                expected[piece].push_back(pattern(peer * 64 + self.rank, index, piece));
            }
        }
        in[piece].resize(in[piece].size() + what.left_over * bytes);
        out[piece].resize(expected[piece].size());
        segment.in = in[piece].data();
        segment.out = out[piece].data();
        segment.count = in[piece].size() / bytes;
        task.segments.push_back(std::move(segment));
    }

    run(self, task);

    expect(out == expected, "alltoall gave other bytes");
}

void check_reducescatter(ContractRank& self,
                         const ExactCase& what,
                         const std::vector<std::size_t>& counts,
                         bool in_place,
                         Runner run) {
    Task task{.op = Op::reducescatter,
              .reduce = what.op,
              .type = what.type,
              .prescale = what.prescale,
              .postscale = what.postscale};
    std::size_t total = 0;
    std::size_t first = 0;
    for (int place = 0; place < self.size; ++place) {
        first = place == self.rank ? total : first;
        total += counts[at(place)];
    }
    auto in = exact_inputs(what, self.rank, total, 0);
    std::vector<std::byte> out(counts[at(self.rank)] * coll::size_of(what.type));
    auto* const to = in_place ? in.data() + first * coll::size_of(what.type) : out.data();
    task.segments.push_back({.in = in.data(), .out = to, .count = total, .counts = counts});

    run(self, task);

    const auto wrong = differs_from_result(what, to, counts[at(self.rank)], first);
    expect(wrong.empty(), "reducescatter: " + wrong);
}

namespace {

void alltoall_of_every_size(ContractRank& self) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{61},
                                    std::size_t{4096}, kChunk - 9, kChunk + 1, 5 * kChunk + 3}) {
        check_alltoall(self, {.count = [&](int, int, std::size_t) { return count; }});
    }
    check_alltoall(self, {.pieces = 3,
                          .type = DataType::f64,
                          .left_over = 7,
                          .count = [](int from, int to, std::size_t piece) {
                              return at(from) * 3 + at(to) * 5 * piece;
                          }});
    check_alltoall(
        self, {.pieces = 2, .type = DataType::f16, .count = [&](int from, int to, std::size_t) {
                   return from == self.size - 1 && to == 0 ? std::size_t{200'000} : 0;
               }});
    for (int round = 0; round < 20; ++round) {
        check_alltoall(self, {.type = DataType::u8, .count = [&](int from, int to, std::size_t) {
                                  return (at(from) * 7919 + at(to) * 104'729 + at(round) * 977) %
                                         (round % 2 == 0 ? 100 : 90'000);
                              }});
    }
    for (const std::size_t pieces : {std::size_t{5}, std::size_t{40}}) {
        check_alltoall(self, {.pieces = pieces, .count = [](int from, int to, std::size_t piece) {
                                  return (at(from + 1) * 30'011 + at(to) * 20'011) % 40'000 /
                                         (piece % 4 + 1);
                              }});
    }
}

void reducescatter_of_every_kind(ContractRank& self) {
    const auto even = [&](std::size_t count) {
        return std::vector<std::size_t>(at(self.size), count);
    };
    const ExactCase plain{.size = self.size};
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{15},
                                    std::size_t{1024}, kChunk / 4 + 1, std::size_t{100'003}}) {
        check_reducescatter(self, plain, even(count), false);
        check_reducescatter(self, plain, even(count), true);
    }
    auto uneven = even(10);
    uneven[0] = 50'001;
    check_reducescatter(self, plain, uneven, true);
    uneven[at(self.size - 1)] = 0;
    check_reducescatter(self, plain, uneven, false);
    for (const auto type : kAllTypes) {
        for (const auto op : kAllReduceOps) {
            if (type == DataType::boolean && op == ReduceOp::average) {
                continue;
            }
            ExactCase what{.type = type, .op = op, .size = self.size};
            check_reducescatter(self, what, even(3), false);
            check_reducescatter(self, what, even(5000), false);
            what.prescale = 0.5;
            what.postscale = 2;
            check_reducescatter(self, what, even(100), false);
        }
    }
}

void average_with_a_divisor(ContractRank& self) {
    for (const std::size_t count : {1U, 3000U, 50'000U}) {
        std::vector<float> data(count, 6);
        auto* const bytes = reinterpret_cast<std::byte*>(data.data());
        run_task(self, {.op = Op::allreduce,
                        .reduce = ReduceOp::average,
                        .segments = {{.in = bytes, .out = bytes, .count = count}},
                        .divisor = 3});
        expect(data == std::vector<float>(count, static_cast<float>(2 * self.size)),
               "an average was not divided by the divisor");
    }
}

/// A reference of the paper's formula, by the tree of algorithms/adasum_tree.hpp.
std::vector<double> adapted(const std::vector<double>& a, const std::vector<double>& b) {
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (std::size_t index = 0; index < a.size(); ++index) {
        ab += a[index] * b[index];
        aa += a[index] * a[index];
        bb += b[index] * b[index];
    }
    std::vector<double> result(a.size());
    for (std::size_t index = 0; index < a.size(); ++index) {
        result[index] = (aa == 0 ? 1 : 1 - ab / (2 * aa)) * a[index] +
                        (bb == 0 ? 1 : 1 - ab / (2 * bb)) * b[index];
    }
    return result;
}

std::vector<double> adasum_of(std::vector<std::vector<double>> gradients) {
    std::size_t power = 1;
    while (2 * power <= gradients.size()) {
        power *= 2;
    }
    const auto pairs = gradients.size() - power;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        gradients[pair] = adapted(gradients[pair], gradients[pair + 1]);
        gradients.erase(gradients.begin() + static_cast<std::ptrdiff_t>(pair) + 1);
    }
    for (; gradients.size() > 1;) {
        std::vector<std::vector<double>> next;
        for (std::size_t pair = 0; pair < gradients.size(); pair += 2) {
            next.push_back(adapted(gradients[pair], gradients[pair + 1]));
        }
        gradients = std::move(next);
    }
    return gradients.front();
}

/// A gradient element of one rank: none is a multiple of another rank's. Exact in bfloat16.
double gradient(int rank, std::size_t segment, std::size_t index) {
    if (segment == 2) {
        return rank % 2 == 0 ? 0 : 1;  // norms of 0, and equal ones
    }
    const auto mixed = (index * 7 + at(rank) * 13 + segment * 5 + index * at(rank)) % 31;
    return (static_cast<double>(mixed) - 15) / 16;
}

/// The averages of the members of each host, in the order of the hosts' first members.
std::vector<std::vector<double>> averages(const std::vector<std::vector<double>>& gradients,
                                          const std::vector<int>& hosts) {
    std::map<int, std::size_t> places;
    std::vector<std::vector<double>> sums;
    std::vector<double> members;
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
        const auto [place, is_first] = places.emplace(hosts[rank], sums.size());
        if (is_first) {
            sums.emplace_back(gradients[rank].size());
            members.push_back(0);
        }
        ++members[place->second];
        for (std::size_t index = 0; index < gradients[rank].size(); ++index) {
            sums[place->second][index] += gradients[rank][index];
        }
    }
    for (std::size_t host = 0; host < sums.size(); ++host) {
        for (auto& sum : sums[host]) {
            sum /= members[host];
        }
    }
    return sums;
}

/// Where `hosts` are given, across them.
template <class T>
void check_adasum(ContractRank& self,
                  DataType type,
                  double tolerance,
                  std::size_t scale,
                  const std::vector<int>& hosts = {}) {
    const std::vector<std::size_t> lengths{scale, 1, 3 * scale + 1, 0, 2 * scale + 5};
    const auto load = [&](T value) -> double {
        if constexpr (sizeof(T) == 2) {
            return type == DataType::f16 ? coll::f16_to_f32(value) : coll::bf16_to_f32(value);
        } else {
            return value;
        }
    };
    const auto store = [&](double value) -> T {
        if constexpr (sizeof(T) == 2) {
            const auto single = static_cast<float>(value);
            return type == DataType::f16 ? coll::f32_to_f16(single) : coll::f32_to_bf16(single);
        } else {
            return static_cast<T>(value);
        }
    };
    Task task{.op = Op::allreduce, .reduce = ReduceOp::adasum, .type = type, .postscale = 2};
    task.reduce = hosts.empty() ? ReduceOp::adasum : ReduceOp::adasum_across_hosts;
    std::vector<std::vector<T>> data;
    for (std::size_t segment = 0; segment < lengths.size(); ++segment) {
        auto& values = data.emplace_back(lengths[segment]);
        for (std::size_t index = 0; index < values.size(); ++index) {
            values[index] = store(gradient(self.rank, segment, index));
        }
        auto* const bytes = reinterpret_cast<std::byte*>(values.data());
        task.segments.push_back({.in = bytes, .out = bytes, .count = values.size()});
    }

    run_task(self, task);

    for (std::size_t segment = 0; segment < lengths.size(); ++segment) {
        std::vector<std::vector<double>> inputs(at(self.size));
        for (int rank = 0; rank < self.size; ++rank) {
            for (std::size_t index = 0; index < lengths[segment]; ++index) {
                inputs[at(rank)].push_back(gradient(rank, segment, index));
            }
        }
        if (!hosts.empty()) {
            inputs = averages(inputs, hosts);
        }
        const auto expected = adasum_of(std::move(inputs));
        for (std::size_t index = 0; index < lengths[segment]; ++index) {
            const auto is = load(data[segment][index]);
            expect(std::abs(is - 2 * expected[index]) <= tolerance * (1 + std::abs(is)),
                   "adasum of " + std::string(coll::to_string(type)) + ", segment " +
                       std::to_string(segment) + ", element " + std::to_string(index) + ": " +
                       std::to_string(is) + " instead of " + std::to_string(2 * expected[index]));
        }
    }
}

void adasum_is_the_papers(ContractRank& self) {
    for (const std::size_t scale : {std::size_t{3}, std::size_t{1000}, std::size_t{30'000}}) {
        check_adasum<float>(self, DataType::f32, 1e-6, scale);
        check_adasum<double>(self, DataType::f64, 1e-13, scale);
    }
    check_adasum<std::uint16_t>(self, DataType::f16, 1e-3, 500);
    check_adasum<std::uint16_t>(self, DataType::bf16, 8e-3, 500);
}

/// Members of 1, 2, 3 or all ranks on a host, and members that are not side by side.
void adasum_across_hosts(ContractRank& self) {
    std::vector<int> ranks(at(self.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    int id = 40;
    for (const int per_host : {1, 2, 3, self.size, -2}) {
        std::vector<int> hosts;
        for (const int rank : ranks) {
            hosts.push_back(per_host < 0 ? rank % -per_host : rank / per_host);
        }
        const Task task{.op = Op::allreduce, .reduce = ReduceOp::adasum_across_hosts};
        if (self.backend.score(task, {.id = id, .ranks = ranks, .hosts = hosts}) != 0) {
            SetRank set(self, id, ranks, 0, hosts);
            check_adasum<float>(*set, DataType::f32, 1e-6, 1000, hosts);
            check_adasum<double>(*set, DataType::f64, 1e-10, 30'000, hosts);
            check_adasum<std::uint16_t>(*set, DataType::f16, 1e-3, 3, hosts);
        }
        ++id;
    }
}

void adasum_of_integers_is_refused(ContractRank& self) {
    std::int32_t value = 1;
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    const auto work =
        self.communicator.start({.op = Op::allreduce,
                                 .reduce = ReduceOp::adasum,
                                 .type = DataType::i32,
                                 .segments = {{.in = bytes, .out = bytes, .count = 1}}});
    expect(!work.has_value() && work.error().code == Errc::unsupported,
           "adasum of integers is not refused");
}

void every_new_operation(ContractRank& self) {
    if (self.backend.score({.op = Op::alltoall}, world_on_one_host(self.rank, self.size)) == 0) {
        return;
    }
    alltoall_of_every_size(self);
    reducescatter_of_every_kind(self);
    average_with_a_divisor(self);
    if (self.backend.score({.op = Op::allreduce, .reduce = ReduceOp::adasum},
                           world_on_one_host(self.rank, self.size)) == 0) {
        return;
    }
    adasum_is_the_papers(self);
    adasum_across_hosts(self);
    adasum_of_integers_is_refused(self);  // last: the communicator is broken now
}

/// Rounding shows the order of a sum.
void parts_are_summed_in_rank_order(ContractRank& self) {
    if (self.backend.score({.op = Op::alltoall}, world_on_one_host(self.rank, self.size)) == 0) {
        return;
    }
    for (const std::size_t part : {std::size_t{3}, std::size_t{100}, std::size_t{9001}}) {
        const auto count = part * at(self.size);
        std::vector<float> expected(count);
        std::vector<float> input(count);
        for (int rank = 0; rank < self.size; ++rank) {
            std::mt19937 random(static_cast<unsigned>(rank) + 7);
            std::normal_distribution<float> normal(0, 100);
            for (std::size_t index = 0; index < count; ++index) {
                const float value = normal(random);
                expected[index] = rank == 0 ? value : expected[index] + value;
                input[index] = rank == self.rank ? value : input[index];
            }
        }
        std::vector<float> result(part);
        run_task(self, {.op = Op::reducescatter,
                        .segments = {{.in = reinterpret_cast<const std::byte*>(input.data()),
                                      .out = reinterpret_cast<std::byte*>(result.data()),
                                      .count = count,
                                      .counts = std::vector<std::size_t>(at(self.size), part)}}});
        expect(
            std::memcmp(result.data(), &expected[part * at(self.rank)], part * sizeof(float)) == 0,
            "a reducescatter gives other bits than a sum in rank order");
    }
}

}  // namespace

TEST_CASE("backend contract: alltoall, reducescatter and adasum give what they promise") {
    run_on_processes(&every_new_operation);
}

TEST_CASE("backend contract, threads: alltoall, reducescatter and adasum give what they promise") {
    run_on_threads(&every_new_operation);
}

TEST_CASE("backend contract: the bits of a reducescatter depend on the ranks' order alone") {
    run_on_processes(&parts_are_summed_in_rank_order);
}

}  // namespace hvd::test
