// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/deadline.hpp"
#include "tests/integration/backend_contract/contract.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace hvd::test {
namespace {

constexpr std::size_t kCaseSegment = 1;

[[noreturn]] void throw_error(const Error& error) {
    throw std::runtime_error(std::string(to_string(error.code)) + ": " + error.message);
}

[[nodiscard]] coll::ProcessSet set_of(const ContractRank& self,
                                      int id,
                                      std::vector<int> ranks,
                                      std::uint32_t incarnation,
                                      const std::vector<int>& hosts) {
    const auto own = std::ranges::find(ranks, self.group.rank());
    coll::ProcessSet set{.id = id,
                         .ranks = ranks,
                         .place = static_cast<int>(own - ranks.begin()),
                         .hosts = hosts.empty() ? std::vector<int>(ranks.size()) : hosts};
    set.incarnation = incarnation;
    return set;
}

void about_to_sleep(const ContractRank& self) {
    self.group.about_to_sleep();
    if (self.host != nullptr) {
        self.host->about_to_sleep();
    }
}

void awake(const ContractRank& self) {
    self.group.awake();
    if (self.host != nullptr) {
        self.host->awake();
    }
}

}  // namespace

std::atomic<std::uint64_t>& ContractRank::shared(std::size_t index) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(group.segment(kCaseSegment).data())[index];
}

SetRank::SetRank(const ContractRank& self,
                 int id,
                 const std::vector<int>& ranks,
                 std::uint32_t incarnation,
                 const std::vector<int>& hosts)
    : communicator_(self.backend.open(set_of(self, id, ranks, incarnation, hosts), {})),
      rank_{self.backend,
            *communicator_,
            self.group,
            self.reactor,
            set_of(self, id, ranks, incarnation, hosts).place,
            static_cast<int>(ranks.size())} {}

std::unique_ptr<coll::Work> start_task(ContractRank& self, const coll::Task& task) {
    auto work = self.communicator.start(task);
    if (!work) {
        throw_error(work.error());
    }
    return std::move(work).value();
}

bool is_done(coll::Work& work) {
    const auto progress = work.poll();
    if (!progress) {
        throw_error(progress.error());
    }
    return *progress == coll::Work::Progress::done;
}

coll::ProcessSet world_on_one_host(int rank, int size) {
    return coll::world_of({.rank = rank, .size = size, .local_rank = rank, .local_size = size});
}

void expect(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

void run_task(ContractRank& self, const coll::Task& task) {
    const auto work = start_task(self, task);
    const auto deadline = Deadline::in(kTaskLimit);
    while (!is_done(*work)) {
        expect(!deadline.has_passed(), "the task did not end in time");
        std::this_thread::yield();
    }
}

void run_task_asleep(ContractRank& self, const coll::Task& task) {
    const auto work = start_task(self, task);
    const auto deadline = Deadline::in(kTaskLimit);
    while (!is_done(*work)) {
        about_to_sleep(self);
        if (is_done(*work)) {
            awake(self);
            break;
        }
        const bool woken = self.reactor.wait(deadline);
        awake(self);
        self.reactor.dispatch();
        expect(woken, "nobody woke this rank");
    }
}

}  // namespace hvd::test
