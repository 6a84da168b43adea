// SPDX-License-Identifier: Apache-2.0
//
// The contract of Communicator: process sets of any members, overlapping, in flight at the same
// time, independent of each other.
#include "collectives/base/deadline.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/integration/backend_contract/operations.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include <sys/stat.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;
using coll::DataType;
using coll::Op;
using coll::Task;

[[nodiscard]] std::vector<int> all_ranks(const ContractRank& self) {
    std::vector<int> ranks(static_cast<std::size_t>(self.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

[[nodiscard]] bool has(const std::vector<int>& ranks, int rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
}

/// Sets of a world: pairs of neighbours in a ring, all but one, the odd ones, and all.
[[nodiscard]] std::vector<std::vector<int>> sets_of(const ContractRank& self) {
    std::vector<std::vector<int>> sets{all_ranks(self), {self.size - 1}};
    for (int rank = 0; rank < self.size && self.size > 1; ++rank) {
        std::vector<int> pair{rank, (rank + 1) % self.size};
        std::ranges::sort(pair);
        sets.push_back(std::move(pair));
        auto all_but_one = all_ranks(self);
        all_but_one.erase(all_but_one.begin() + rank);
        sets.push_back(std::move(all_but_one));
    }
    std::vector<int> odd;
    for (int rank = 1; rank < self.size; rank += 2) {
        odd.push_back(rank);
    }
    if (!odd.empty()) {
        sets.push_back(std::move(odd));
    }
    return sets;
}

/// A set of one rank is for the backend "self" to serve.
[[nodiscard]] bool serves(const ContractRank& self, const std::vector<int>& ranks) {
    const coll::ProcessSet set{
        .id = 1, .ranks = ranks, .place = 0, .hosts = std::vector<int>(ranks.size())};
    return self.backend.score(Task{}, set) > 0;
}

/// The sum of one number from each member, in `count` elements.
class Sum {
public:
    Sum(ContractRank& member, std::size_t count, int seed)
        : data_(count, static_cast<float>(member.rank + seed)),
          expected_(static_cast<float>(member.size * (member.size - 1 + 2 * seed)) / 2) {
        auto* const bytes = reinterpret_cast<std::byte*>(data_.data());
        work_ = start_task(member, {.op = Op::allreduce,
                                    .segments = {{.in = bytes, .out = bytes, .count = count}}});
    }

    [[nodiscard]] bool is_over() {
        if (work_ && is_done(*work_)) {
            work_.reset();
            expect(std::ranges::all_of(data_, [&](float value) { return value == expected_; }),
                   "the sum of a set is wrong");
        }
        return work_ == nullptr;
    }

    void finish() {
        const auto deadline = Deadline::in(kTaskLimit);
        while (!is_over()) {
            expect(!deadline.has_passed(), "the sum of a set did not come in time");
            std::this_thread::yield();
        }
    }

    [[nodiscard]] coll::Work& work() noexcept { return *work_; }

private:
    std::vector<float> data_;
    float expected_;
    std::unique_ptr<coll::Work> work_;
};

void run_everything(ContractRank& member) {
    const ExactCase what{.size = member.size};
    for (const std::size_t count : {1U, 800U, 40'000U}) {
        Sum(member, count, 5).finish();
        check_reducescatter(member, what,
                            std::vector<std::size_t>(static_cast<std::size_t>(member.size), count),
                            false);
        check_alltoall(member, {.count = [&](int from, int to, std::size_t) {
                           return (static_cast<std::size_t>(from) + 1) * count / 2 +
                                  static_cast<std::size_t>(to);
                       }});
        std::vector<std::byte> data(count);
        for (int root = 0; root < member.size; ++root) {
            std::ranges::fill(data, static_cast<std::byte>(member.rank));
            run_task(member,
                     {.op = Op::broadcast,
                      .type = DataType::u8,
                      .root = root,
                      .segments = {{.in = data.data(), .out = data.data(), .count = count}}});
            expect(data == std::vector<std::byte>(count, static_cast<std::byte>(root)),
                   "a broadcast in a set gave other bytes");
        }
        std::vector<std::byte> own(count, static_cast<std::byte>(member.rank));
        std::vector<std::byte> all(count * static_cast<std::size_t>(member.size));
        run_task(member, {.op = Op::allgather,
                          .type = DataType::u8,
                          .segments = {{.in = own.data(),
                                        .out = all.data(),
                                        .count = count,
                                        .counts = std::vector<std::size_t>(
                                            static_cast<std::size_t>(member.size), count)}}});
        for (std::size_t index = 0; index < all.size(); ++index) {
            expect(all[index] == static_cast<std::byte>(index / count),
                   "an allgather in a set gave other bytes");
        }
    }
    run_task(member, {.op = Op::barrier});
}

void sets_of_every_size_run_everything(ContractRank& self) {
    int id = 1;
    for (const auto& ranks : sets_of(self)) {
        if (has(ranks, self.rank) && serves(self, ranks)) {
            SetRank member(self, id, ranks);
            run_everything(*member);
        }
        ++id;
    }
}

/// Each rank starts its sets in another order, and each set again when it has ended.
void overlapping_sets_are_in_flight_together(ContractRank& self) {
    std::vector<std::unique_ptr<SetRank>> members;
    std::vector<ContractRank*> lanes{&self};
    int id = 101;  // no set has the id of one that other members may still have open
    for (const auto& ranks : sets_of(self)) {
        if (has(ranks, self.rank) && serves(self, ranks)) {
            members.push_back(std::make_unique<SetRank>(self, id, ranks));
            lanes.push_back(&**members.back());
        }
        ++id;
    }
    std::minstd_rand random(static_cast<unsigned>(self.rank) + 1);
    std::ranges::shuffle(lanes, random);
    constexpr int kRounds = 30;
    std::vector<std::unique_ptr<Sum>> running(lanes.size());
    std::vector<int> rounds(lanes.size());
    const auto deadline = Deadline::in(kTaskLimit);
    for (std::size_t left = lanes.size(); left > 0;) {
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            if (running[lane] && running[lane]->is_over()) {
                running[lane].reset();
                left -= rounds[lane] == kRounds ? 1 : 0;
            }
            if (!running[lane] && rounds[lane] < kRounds) {
                const int round = ++rounds[lane];
                const auto count = round % 5 == 0   ? std::size_t{50'000}
                                   : round % 2 == 0 ? std::size_t{700}
                                                    : std::size_t{1};
                running[lane] = std::make_unique<Sum>(*lanes[lane], count, round);
            }
        }
        expect(!deadline.has_passed(), "sets that overlap wait for each other");
        std::this_thread::yield();
    }
}

/// Two ranks, blocked in the world and in another set by a third one, go on with each other.
void a_slow_member_delays_its_own_sets_alone(ContractRank& self) {
    if (self.size < 3) {
        return;
    }
    constexpr std::uint64_t kOperations = 300;
    auto& finished = self.shared(1);
    const int slow = self.size - 1;
    const auto all = all_ranks(self);
    SetRank everybody(self, 201, all);
    const auto limit = Deadline::in(kTaskLimit);
    if (self.rank == slow) {
        while (finished.load() < 2 * kOperations) {
            expect(!limit.has_passed(), "a set waits for a rank that is no member");
            std::this_thread::yield();
        }
    }
    Sum large(*everybody, 100'000, 1);
    Sum of_world(self, 3, 2);
    if (self.rank < 2) {
        SetRank pair(self, 202, {0, 1});
        for (std::uint64_t operation = 0; operation < kOperations; ++operation) {
            Sum sum(*pair, operation % 50 == 0 ? 20'000 : 1, static_cast<int>(operation % 7));
            while (!sum.is_over()) {
                expect(!large.is_over() && !of_world.is_over(), "a task ended without a member");
                expect(!limit.has_passed(), "a set waits for a rank that is no member");
            }
            finished.fetch_add(1);
        }
    }
    large.finish();
    of_world.finish();
}

/// One that is aborted while it waits; the others go on, and so does its successor.
void an_aborted_set_harms_no_other(ContractRank& self) {
    if (self.size < 2 || !serves(self, all_ranks(self))) {
        return;
    }
    const std::vector<int> pair{0, 1};
    for (const std::size_t count : {std::size_t{1}, std::size_t{50'000}}) {
        const auto incarnation = static_cast<std::uint32_t>(count);
        if (self.rank < 2) {
            SetRank other(self, 302, pair, incarnation);
            {
                SetRank given_up(self, 301, pair, incarnation);
                if (self.rank == 0) {
                    Sum sum(*given_up, count, 1);
                    for (int round = 0; round < 50; ++round) {
                        expect(!sum.is_over(), "a task ended without a member");
                        std::this_thread::yield();
                    }
                    const Error cause{Errc::aborted, "the set was given up"};
                    given_up->communicator.abort(cause);
                    const auto progress = sum.work().poll();
                    expect(!progress && progress.error() == cause,
                           "an aborted task does not fail with the cause");
                }
                Sum(*other, count, 3).finish();
            }
            SetRank next(self, 301, pair, incarnation + 1);
            Sum(*next, count, 4).finish();
        }
        Sum(self, count, 5).finish();
    }
}

[[nodiscard]] std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Of this process and of what the group shares, in bytes.
[[nodiscard]] std::size_t resident_bytes(const ContractRank& self) {
    std::size_t own = 0;
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "RssAnon:") {
            status >> own;
        }
    }
    struct stat shared {};
    (void)::fstat(self.group.memory_descriptor(), &shared);
    return own * 1024 +
           static_cast<std::size_t>(shared.st_blocks) * 512 / static_cast<std::size_t>(self.size);
}

// Sanitizers keep freed memory, and ThreadSanitizer several bytes of shadow for each that is used:
// what the process holds then says nothing about a set.
#if defined(HVD_SANITIZE_ADDRESS) || defined(HVD_SANITIZE_THREAD)
constexpr bool kMeasuresMemory = false;
#else
constexpr bool kMeasuresMemory = true;
#endif

void a_thousand_sets_leave_nothing(ContractRank& self) {
    if (self.size < 2 || !serves(self, all_ranks(self))) {
        return;
    }
    constexpr int kSets = 1000;
    const auto run_all = [&](std::uint32_t incarnation) {
        std::deque<SetRank> members;
        for (int set = 0; set < kSets; ++set) {
            SetRank& member = members.emplace_back(self, set + 1, all_ranks(self), incarnation);
            Sum(*member, set % 10 == 0 ? 40'000 : 1, set % 3).finish();
        }
        return resident_bytes(self);
    };
    (void)run_all(0);
    run_task(self, {.op = Op::barrier});
    const auto descriptors = open_descriptors();
    const auto before = resident_bytes(self);

    const auto idle = run_all(1);

    expect(open_descriptors() == descriptors, "sets leave descriptors");
    run_task(self, {.op = Op::barrier});
    if (kMeasuresMemory) {
        expect(idle < before + kSets * (std::size_t{64} << 10),
               "an idle set takes " + std::to_string((idle - before) / kSets) + " bytes a member");
        const auto after = resident_bytes(self);
        expect(after < before + (std::size_t{4} << 20),
               "a thousand sets leave " + std::to_string(after - before) + " bytes");
    }
}

void a_member_that_sleeps_is_woken(ContractRank& self) {
    if (self.size < 3) {
        return;
    }
    auto ranks = all_ranks(self);
    ranks.erase(ranks.begin() + 1);
    if (!has(ranks, self.rank)) {
        return;
    }
    SetRank member(self, 401, ranks);
    for (int round = 0; round < 5; ++round) {
        for (const std::size_t count : {1U, 500U, 100'000U}) {
            check_reducescatter(
                *member, {.size = member->size},
                std::vector<std::size_t>(static_cast<std::size_t>(member->size), count), false,
                &run_task_asleep);
            check_alltoall(*member, {.count = [&](int, int, std::size_t) { return count; }},
                           &run_task_asleep);
        }
    }
}

/// Runs short tasks of `everybody` while the first two ranks run a long one in `pair`, and counts
/// those that end before it in shared(2).
void run_short_tasks_beside_a_long_one(ContractRank& self, ContractRank& everybody, SetRank* pair) {
    constexpr std::size_t kLong = std::size_t{8} << 20;  // elements
    constexpr int kShort = 20;
    std::optional<Sum> sum;
    if (pair != nullptr) {
        sum.emplace(**pair, kLong, 1);
    }
    for (int operation = 0; operation < kShort; ++operation) {
        Sum one(everybody, 1, operation);
        const auto deadline = Deadline::in(kTaskLimit);
        while (!one.is_over()) {
            expect(!deadline.has_passed(), "a short task waits for a long one");
            (void)(sum && sum->is_over());
        }
        if (sum && !sum->is_over()) {
            self.shared(2).fetch_add(1);
        }
    }
    if (sum) {
        sum->finish();
    }
}

/// All messages of two ranks share what lies between them. Where the other ranks had no CPU for a
/// while, the long task may well end first, so that there are several attempts.
void a_long_task_does_not_hold_up_short_ones(ContractRank& self) {
    if (self.size < 3) {
        return;
    }
    constexpr int kAttempts = 50;
    SetRank everybody(self, 501, all_ranks(self));
    std::optional<SetRank> pair;
    if (self.rank < 2) {
        pair.emplace(self, 502, std::vector<int>{0, 1});
    }
    bool has_passed = false;
    for (int attempt = 0; attempt < kAttempts && !has_passed; ++attempt) {
        run_short_tasks_beside_a_long_one(self, *everybody, pair ? &*pair : nullptr);
        run_task(self, {.op = Op::barrier});
        has_passed = self.shared(2).load() > 2;
        run_task(self, {.op = Op::barrier});  // before anybody counts again
    }
    expect(has_passed, "short tasks did not end before a long one");
}

/// Long tasks of ranks that sleep whenever there is nothing to do.
void a_long_task_ends_asleep(ContractRank& self) {
    std::vector<float> data(std::size_t{6} << 20, 1);
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    run_task_asleep(self, {.op = Op::allreduce,
                           .segments = {{.in = bytes, .out = bytes, .count = data.size()}}});
    expect(data.back() == static_cast<float>(self.size), "the sum is wrong");
    std::vector<float> other(data.size());
    run_task_asleep(self, {.op = Op::broadcast,
                           .root = self.size - 1,
                           .segments = {{.in = bytes,
                                         .out = reinterpret_cast<std::byte*>(other.data()),
                                         .count = data.size()}}});
    expect(other == data, "a broadcast gave other numbers");
}

/// A rank that sleeps for one set, and has not come to others whose messages lie before.
void early_messages_bury_no_other(ContractRank& self) {
    if (self.size < 2) {
        return;
    }
    constexpr std::uint64_t kMost = 300;
    constexpr std::size_t kEarly = 4;
    std::deque<SetRank> early;
    for (std::size_t set = 0; set < kEarly; ++set) {
        early.emplace_back(self, 601 + static_cast<int>(set), all_ranks(self));
    }
    SetRank awaited(self, 600, all_ranks(self));
    std::vector<float> data(256, static_cast<float>(self.rank));
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    const Task broadcast{.op = Op::broadcast,
                         .segments = {{.in = bytes, .out = bytes, .count = data.size()}}};
    auto& is_sent = self.shared(8);
    const auto started = [&](std::size_t set) -> auto& {
        return self.shared(10 + set);
    };
    run_task(self, {.op = Op::barrier});
    if (self.rank == 0) {
        std::vector<std::unique_ptr<coll::Work>> works;
        for (std::size_t set = 0; set < kEarly; ++set) {
            bool is_stuck = false;
            while (started(set).load() < kMost && !is_stuck) {
                works.push_back(start_task(*early[set], broadcast));
                started(set).fetch_add(1);
                is_stuck = !is_done(*works.back());
            }
        }
        works.push_back(start_task(*awaited, broadcast));
        for (int poll = 0; poll < 100; ++poll) {
            (void)is_done(*works.back());
        }
        is_sent.store(1);
        const auto deadline = Deadline::in(kTaskLimit);
        while (!std::ranges::all_of(works, [](const auto& work) { return is_done(*work); })) {
            expect(!deadline.has_passed(), "a broadcast did not end");
            std::this_thread::yield();
        }
    } else {
        while (is_sent.load() == 0) {
            std::this_thread::yield();
        }
        run_task_asleep(*awaited, broadcast);
        for (std::size_t set = 0; set < kEarly; ++set) {
            for (std::uint64_t task = 0; task < started(set).load(); ++task) {
                run_task(*early[set], broadcast);
            }
        }
    }
    expect(data == std::vector<float>(data.size(), 0), "a broadcast gave other numbers");
}

void sets(ContractRank& self) {
    if (!serves(self, all_ranks(self))) {
        return;
    }
    sets_of_every_size_run_everything(self);
    overlapping_sets_are_in_flight_together(self);
    a_slow_member_delays_its_own_sets_alone(self);
    a_long_task_does_not_hold_up_short_ones(self);
    a_member_that_sleeps_is_woken(self);
    a_long_task_ends_asleep(self);
    early_messages_bury_no_other(self);
}

}  // namespace

TEST_CASE("backend contract: sets of any members are independent of each other") {
    run_on_processes(&sets);
}

TEST_CASE("backend contract, threads: sets of any members are independent of each other") {
    run_on_threads(&sets);
}

TEST_CASE("backend contract: a set that is aborted harms no other") {
    run_on_processes(&an_aborted_set_harms_no_other);
}

TEST_CASE("backend contract: a thousand sets hold no descriptor and leave no memory") {
    run_on_processes(&a_thousand_sets_leave_nothing);
}

}  // namespace hvd::test
