// SPDX-License-Identifier: Apache-2.0
//
// The language of the contract's cases: one rank of a world, and ways to run tasks on it. A
// case is a function that every rank runs; it throws to fail.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/reactor.hpp"
#include "collectives/sum_order.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "tests/support/proc_group.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd::test {

inline constexpr std::chrono::seconds kTaskLimit{20};

struct ContractRank {
    coll::Backend& backend;
    coll::Communicator& communicator;  // of the world, or of a set (see SetRank)
    coll::LocalGroup& group;
    coll::Reactor& reactor;  // wakes the backend, and the group's ranks
    int rank;                // in a set: the place
    int size;
    coll::SumOrder sums = coll::SumOrder::by_rank;
    coll::LocalGroup* host = nullptr;  // whose members wake this rank too

    /// Memory of the case's own that all ranks share, zero at first. At least 64 numbers.
    [[nodiscard]] std::atomic<std::uint64_t>& shared(std::size_t index) const;
};

/// This rank as a member of a set: its `rank` is the place in the set.
class SetRank {
public:
    /// `ranks` are some of the world's, this one among them. Sets that are open at the same time
    /// have different ids. `hosts` are those of the members; empty: one host.
    SetRank(const ContractRank& self,
            int id,
            const std::vector<int>& ranks,
            std::uint32_t incarnation = 0,
            const std::vector<int>& hosts = {});

    [[nodiscard]] ContractRank& operator*() noexcept { return rank_; }
    [[nodiscard]] ContractRank* operator->() noexcept { return &rank_; }

private:
    std::unique_ptr<coll::Communicator> communicator_;
    ContractRank rank_;
};

[[nodiscard]] coll::ProcessSet world_on_one_host(int rank, int size);

using ContractCase = void (*)(ContractRank&);

/// Fails the current test with what ranks said, if one did not exit with 0.
void check_all_well(const std::vector<RankEnd>& ends);

/// Runs the case on every backend and world size, and checks how the ranks ended.
void run_on_processes(ContractCase run,
                      void (*check)(const std::vector<RankEnd>& ends) = &check_all_well);

/// The same with ranks that are threads, at fewer sizes.
void run_on_threads(ContractCase run);

[[nodiscard]] std::unique_ptr<coll::Work> start_task(ContractRank& self, const coll::Task& task);

/// Throws the Error as text.
[[nodiscard]] bool is_done(coll::Work& work);

void expect(bool holds, const std::string& what);

/// Polls the task to its end, yielding the CPU in between. Throws the Error as text.
void run_task(ContractRank& self, const coll::Task& task);

/// The same, but sleeps in the reactor whenever there is nothing to do.
void run_task_asleep(ContractRank& self, const coll::Task& task);

}  // namespace hvd::test
