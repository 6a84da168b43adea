// SPDX-License-Identifier: Apache-2.0
//
// Which members have not begun a task that the others wait with.
#include "collectives/base/deadline.hpp"
#include "tests/integration/backend_contract/contract.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>
#include <vector>

namespace hvd::test {
namespace {

using coll::Op;
using coll::ReduceOp;
using coll::Task;

/// Tasks that no member can end before all have begun, one for each path.
[[nodiscard]] std::vector<Task> tasks_of(int size,
                                         std::vector<float>& in,
                                         std::vector<float>& out) {
    auto* const from = reinterpret_cast<std::byte*>(in.data());
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    const auto members = static_cast<std::size_t>(size);
    const auto task = [&](Op op, std::size_t count, std::vector<std::size_t> counts) {
        return Task{
            .op = op,
            .reduce = ReduceOp::sum,
            .segments = {{.in = from, .out = to, .count = count, .counts = std::move(counts)}}};
    };
    std::vector<Task> tasks{{.op = Op::barrier}};
    for (const std::size_t count : {1U, 500U, 100'000U}) {
        const std::vector<std::size_t> each(members, count);
        tasks.push_back(task(Op::allreduce, count, {}));
        tasks.push_back(task(Op::allgather, count, each));
        tasks.push_back(task(Op::reducescatter, count * members, each));
    }
    tasks.push_back(task(Op::allreduce, 500, {}));
    tasks.back().reduce = ReduceOp::adasum;
    return tasks;
}

/// The last rank comes once all others have seen that it is missing, or cannot tell: over TCP only
/// those know that begin with a message to or from it.
void see_who_is_missing(ContractRank& self) {
    constexpr std::size_t kMost = 100'000;
    const std::vector<int> last{self.size - 1};
    const bool is_last = self.rank == self.size - 1;
    const auto others = static_cast<std::uint64_t>(self.size - 1);
    std::vector<float> in(kMost * static_cast<std::size_t>(self.size), 1);
    std::vector<float> out(in.size());
    auto& have_looked = self.shared(0);
    auto& know = self.shared(1);
    const auto limit = Deadline::in(kTaskLimit);
    std::uint64_t round = 0;
    for (const auto& task : tasks_of(self.size, in, out)) {
        ++round;
        while (is_last && have_looked.load() < round * others) {
            expect(!limit.has_passed(), "the others do not see which ranks are missing");
            std::this_thread::yield();
        }
        const auto work = start_task(self, task);
        bool has_looked = is_last;
        while (!is_done(*work)) {
            expect(!limit.has_passed(), "the task did not end in time");
            const auto missing = work->missing();
            const bool is_known = missing == last;
            if (!has_looked && (is_known || (missing.empty() && self.backend.name() == "tcp"))) {
                has_looked = true;
                know.fetch_add(is_known ? 1 : 0);
                have_looked.fetch_add(1);
            }
            std::this_thread::yield();
        }
        expect(has_looked || self.size == 1, "a rank could not see that another one is missing");
    }
    const auto least = self.backend.name() == "tcp" ? std::min<std::uint64_t>(others, 1) : others;
    expect(know.load() >= round * least, "too few ranks have seen who is missing");
}

}  // namespace

TEST_CASE("backend contract: a task that waits tells which members have not begun it") {
    run_on_processes(&see_who_is_missing);
}

TEST_CASE("backend contract, threads: a task that waits tells which members have not begun it") {
    run_on_threads(&see_who_is_missing);
}

}  // namespace hvd::test
