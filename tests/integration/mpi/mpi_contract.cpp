// SPDX-License-Identifier: Apache-2.0
//
// The backend contract where the ranks are processes that mpirun has started: each runs every case
// as its part of one world. The folder of plugins and what the ranks meet by come in the
// environment.
#include "collectives/mpi/factory.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/integration/mpi/this_rank.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <thread>

#include <sys/epoll.h>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

/// For the ranks that are still there.
void wait_for_all(const ContractRank& self) {
    constexpr std::size_t kArrived = 63;  // no case counts there
    self.shared(kArrived).fetch_add(1);
    const auto deadline = Deadline::in(2s);
    while (self.shared(kArrived).load() < static_cast<std::uint64_t>(self.size) &&
           !deadline.has_passed()) {
        std::this_thread::yield();
    }
}

}  // namespace

void check_all_well(const std::vector<RankEnd>& /*ends*/) {}

void run_on_processes(ContractCase run, void (* /*check*/)(const std::vector<RankEnd>& ends)) {
    auto communicator = value_of(this_rank_session().communicate(Deadline::in(kStartLimit)));
    const auto group = meet_all_ranks(communicator.rank(), communicator.size());
    coll::Reactor reactor;
    reactor.watch(group->wakeup_descriptor(), EPOLLIN, [&](std::uint32_t) { group->drain(); });
    const auto backend = coll::mpi::create(std::move(communicator), reactor);
    const auto world = backend->open(world_on_one_host(group->rank(), group->size()), {});
    ContractRank self{*backend, *world, *group, reactor, group->rank(), group->size()};
    ignore_termination();
    run(self);
    // Before MPI's launcher hears of a rank that ends without MPI_Finalize, and ends the others.
    say_that_it_is_over();
    wait_for_all(self);
}

void run_on_threads(ContractCase /*run*/) {
    FAIL("MPI's ranks are processes: leave the cases for threads out");
}

}  // namespace hvd::test
