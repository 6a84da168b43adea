// SPDX-License-Identifier: Apache-2.0
//
// The contract's second half: a rank that dies or never comes. Nobody hangs, nobody crashes, and
// what is pending fails with the cause that the owner gave.
#include "collectives/base/deadline.hpp"
#include "tests/integration/backend_contract/contract.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;
using coll::Op;
using coll::Task;
using coll::Work;

Task allreduce_of(std::vector<float>& data) {
    return {.op = Op::allreduce,
            .segments = {{.in = reinterpret_cast<const std::byte*>(data.data()),
                          .out = reinterpret_cast<std::byte*>(data.data()),
                          .count = data.size()}}};
}

bool has_died(const ContractRank& self, int rank) {
    pollfd ended{self.group.peer_pidfd(rank), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
}

/// Polls until the condition holds; the task must not end before.
template <class Condition>
void pend_until(Work& work, Condition holds) {
    const auto deadline = Deadline::in(kTaskLimit);
    while (!holds()) {
        const auto progress = work.poll();
        expect(progress.has_value() && *progress == Work::Progress::pending,
               "a task ended without one of its ranks");
        expect(!deadline.has_passed(), "the condition did not come in time");
        std::this_thread::yield();
    }
}

/// Aborts the communicator; the work and everything later must say so.
void expect_abort(ContractRank& self, Work& work, const Task& task) {
    const Error cause{Errc::unavailable, "rank " + std::to_string(self.size - 1) + " died"};
    self.communicator.abort(cause);
    for (int again = 0; again < 2; ++again) {
        const auto progress = work.poll();
        expect(!progress.has_value() && progress.error() == cause,
               "an aborted task does not fail with the cause");
    }
    const auto later = self.communicator.start(task);
    expect(!later.has_value() && later.error().code == Errc::aborted,
           "a broken communicator starts a task");
}

/// The last rank is killed while the others wait for it.
void survive_a_killed_rank(ContractRank& self, std::size_t elements) {
    if (self.size == 1) {
        return;
    }
    std::vector<float> data(elements, 1);
    for (int round = 0; round < 3; ++round) {
        run_task(self, allreduce_of(data));
    }
    if (self.rank == self.size - 1) {
        (void)::kill(::getpid(), SIGKILL);
    }
    const auto work = self.communicator.start(allreduce_of(data));
    expect(work.has_value(), "a task does not start");
    const auto deadline = Deadline::in(3s);  // more ranks than processors
    pend_until(**work, [&] {
        expect(!deadline.has_passed(), "the death was not seen within 3 s");
        return has_died(self, self.size - 1);
    });
    expect_abort(self, **work, allreduce_of(data));
}

void survive_in_the_tiny_path(ContractRank& self) {
    survive_a_killed_rank(self, 1);
}
void survive_in_the_small_path(ContractRank& self) {
    survive_a_killed_rank(self, 1000);
}
void survive_in_the_chunked_path(ContractRank& self) {
    survive_a_killed_rank(self, 100'000);
}

/// A member of a set is killed: what is pending in that set fails, and other sets go on.
void survive_a_killed_member(ContractRank& self) {
    if (self.size < 3) {
        survive_a_killed_rank(self, 1);
        return;
    }
    const int last = self.size - 1;
    std::vector<int> ranks(static_cast<std::size_t>(last));
    std::iota(ranks.begin(), ranks.end(), 1);  // all but rank 0, which must see nothing of it
    std::vector<float> data(100'000, 1);
    auto& have_seen = self.shared(0);
    SetRank pair(self, 2,
                 {0, 1});  // of a rank that is in no set with the dead one, and one that is
    if (self.rank > 0) {
        SetRank member(self, 1, ranks);
        run_task(*member, allreduce_of(data));
        if (self.rank == last) {
            (void)::kill(::getpid(), SIGKILL);
        }
        const auto work = member->communicator.start(allreduce_of(data));
        expect(work.has_value(), "a task does not start");
        pend_until(**work, [&] { return has_died(self, last); });
        expect_abort(*member, **work, allreduce_of(data));
        have_seen.fetch_add(1);
    }
    if (self.rank < 2) {
        for (const std::size_t count : {1U, 1000U, 100'000U}) {
            std::vector<float> ones(count, 1);
            run_task(*pair, allreduce_of(ones));
            expect(std::ranges::all_of(ones, [](float each) { return each == 2; }),
                   "a set without the dead rank gave a wrong sum");
        }
    }
    const auto limit = Deadline::in(kTaskLimit);
    while (have_seen.load() + 2 < static_cast<std::uint64_t>(self.size)) {
        expect(!limit.has_passed(), "the members did not see the death");
        std::this_thread::yield();
    }
}

/// A rank that lives but never comes: the owner's deadline passes.
void survive_an_expired_deadline(ContractRank& self) {
    if (self.size == 1) {
        return;
    }
    auto& given_up = self.shared(0);
    const auto all_have_given_up = [&] {
        return given_up.load() == static_cast<std::uint64_t>(self.size) - 1;
    };
    const auto limit = Deadline::in(kTaskLimit);
    if (self.rank == self.size - 1) {
        while (!all_have_given_up()) {
            expect(!limit.has_passed(), "the others did not give up");
            std::this_thread::yield();
        }
        return;
    }
    std::vector<float> data(10'000, 1);
    const auto work = self.communicator.start(allreduce_of(data));
    expect(work.has_value(), "a task does not start");
    const auto deadline = Deadline::in(20ms);
    pend_until(**work, [&] { return deadline.has_passed(); });
    expect_abort(self, **work, allreduce_of(data));
    given_up.fetch_add(1);
}

/// How the ranks must end: all well, but for a killed last rank.
void check_ends(const std::vector<RankEnd>& ends) {
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
        const auto& end = ends[rank];
        const bool is_killed = ends.size() > 1 && rank + 1 == ends.size();
        CAPTURE(rank, end.output);
        CHECK(end.signal == (is_killed ? SIGKILL : 0));
        CHECK(end.exit_code == (is_killed ? -1 : 0));
    }
}

}  // namespace

// A case for each path: where the ranks are those of one mpirun, a death is for good.

TEST_CASE("backend contract: a killed rank fails at once what is pending in the tiny path") {
    run_on_processes(&survive_in_the_tiny_path, &check_ends);
}

TEST_CASE("backend contract: a killed rank fails at once what is pending in the small path") {
    run_on_processes(&survive_in_the_small_path, &check_ends);
}

TEST_CASE("backend contract: a killed rank fails at once what is pending in the chunked path") {
    run_on_processes(&survive_in_the_chunked_path, &check_ends);
}

TEST_CASE("backend contract: a killed member of a set fails what is pending there alone") {
    run_on_processes(&survive_a_killed_member, &check_ends);
}

TEST_CASE("backend contract: a task whose deadline expires fails with the owner's cause") {
    run_on_processes(&survive_an_expired_deadline);
}

TEST_CASE("backend contract, threads: a task whose deadline expires fails with the owner's cause") {
    run_on_threads(&survive_an_expired_deadline);
}

}  // namespace hvd::test
