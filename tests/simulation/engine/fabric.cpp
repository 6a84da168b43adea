// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/fabric.hpp"

#include "tests/simulation/engine/arithmetic.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <sys/epoll.h>

namespace hvd::sim {
namespace {

std::string describe(const coll::ProcessSet& set, std::size_t number) {
    return "collective " + std::to_string(number) + " of process set " + std::to_string(set.id);
}

/// The parts of a task that must be equal on all members.
std::string describe(const Fabric::Start& start) {
    const auto& task = start.task;
    std::string text(to_string(task.op));
    text += " " + std::string(to_string(task.reduce)) + " " + std::string(to_string(task.type)) +
            " x" + std::to_string(task.prescale) + " x" + std::to_string(task.postscale) +
            " root " + std::to_string(task.root) + " divisor " + std::to_string(task.divisor);
    for (std::size_t index = 0; index < task.segments.size(); ++index) {
        const bool is_uneven = task.op == coll::Op::allgather || task.op == coll::Op::alltoall;
        text += " [" + (is_uneven ? std::string("*") : std::to_string(task.segments[index].count));
        if (task.op == coll::Op::allgather || task.op == coll::Op::reducescatter) {
            for (const auto count : task.segments[index].counts) {
                text += "," + std::to_string(count);
            }
        }
        text += "]";
    }
    return text;
}

/// Of a communicator that was aborted.
using Failure = std::shared_ptr<std::optional<Error>>;

class SimWork final : public coll::Work {
public:
    SimWork(Fabric::Collective& collective, int place, const Fabric& fabric, Failure failure)
        : collective_(collective),
          place_(static_cast<std::size_t>(place)),
          fabric_(fabric),
          failure_(std::move(failure)) {}

    [[nodiscard]] Result<Progress> poll() override {
        Scheduler::current().touch();
        if (*failure_) {
            if (!has_result_ && !std::exchange(has_withdrawn_, true)) {
                ++collective_.missing;  // its memory is given back: the others wait in vain
            }
            return **failure_;
        }
        if (collective_.missing != 0 || collective_.ends[place_] > Clock::now()) {
            return Progress::pending;
        }
        if (!has_result_) {
            has_result_ = true;
            write_result(collective_.starts[place_]->task, place_,
                         collective_.starts[place_]->result);
            if (fabric_.traits().enqueues && Scheduler::current().random().one_in(2)) {
                collective_.ends[place_] =
                    Files::in_at_most(fabric_.traits().longest_us) + std::chrono::nanoseconds(1);
                collective_.starts[place_]->wakeup->notify_at(collective_.ends[place_]);
                return Progress::enqueued;
            }
        }
        return Progress::done;
    }

private:
    Fabric::Collective& collective_;
    std::size_t place_;
    const Fabric& fabric_;
    bool has_result_ = false;
    bool has_withdrawn_ = false;
    Failure failure_;
};

class SimCommunicator final : public coll::Communicator {
public:
    SimCommunicator(int rank,
                    Fabric& fabric,
                    coll::ProcessSet set,
                    std::shared_ptr<EventFile> wakeup)
        : Communicator("simulated"),
          rank_(rank),
          fabric_(fabric),
          set_(std::move(set)),
          wakeup_(std::move(wakeup)) {}

    [[nodiscard]] bool gathers(const coll::Task& task) const noexcept override {
        const bool may_pack = task.op == coll::Op::allreduce || task.op == coll::Op::broadcast;
        return task.wire == coll::Wire::own && (fabric_.traits().gathers || !may_pack);
    }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t bytes) override {
        auto& memory = workspaces_[started_ % workspaces_.size()];
        memory.resize(std::max<std::size_t>(bytes, 1));
        return memory;
    }

private:
    std::unique_ptr<coll::Work> do_start(const coll::Task& task) override {
        auto start = std::make_unique<Fabric::Start>();
        start->rank = rank_;
        start->task = task;
        start->wakeup = wakeup_;
        for (const auto& segment : task.segments) {
            start->ids.push_back(fabric_.id_of(rank_, segment.in, set_.id));
        }
        auto& collective = fabric_.start(set_, started_++, std::move(start));
        return std::make_unique<SimWork>(collective, set_.place, fabric_, failure_);
    }
    void do_abort(const Error& cause) override { *failure_ = cause; }

    int rank_;
    Fabric& fabric_;
    coll::ProcessSet set_;
    std::shared_ptr<EventFile> wakeup_;
    std::size_t started_ = 0;
    Failure failure_ = std::make_shared<std::optional<Error>>();
    std::vector<std::vector<std::byte>> workspaces_{4};
};

}  // namespace

void Fabric::name_input(int rank, const std::byte* in, TensorId id, int process_set) {
    named_[{rank, in}] = {.id = id, .process_set = process_set};
}

TensorId Fabric::id_of(int rank, const std::byte* in, int process_set) const {
    const auto found = named_.find({rank, in});
    if (found == named_.end()) {
        return 0;
    }
    if (found->second.process_set != process_set) {
        Scheduler::current().fail("wrong batch: rank " + std::to_string(rank) +
                                  " starts a tensor of process set " +
                                  std::to_string(found->second.process_set) + " with process set " +
                                  std::to_string(process_set));
    }
    return found->second.id;
}

Fabric::Collective& Fabric::start(const coll::ProcessSet& set,
                                  std::size_t number,
                                  std::unique_ptr<Start> start) {
    auto& collective = collectives_[{set.id, set.incarnation, number}];
    if (collective.starts.empty()) {
        collective.starts.resize(set.ranks.size());
        collective.missing = set.size();
    }
    start->text = describe(*start);
    trace([&] {
        std::string ids;
        for (const auto id : start->ids) {
            ids += " #" + std::to_string(id);
        }
        return "starts " + describe(set, number) + ": " + start->text + ids;
    });
    for (const auto& other : collective.starts) {
        if (other == nullptr) {
            continue;
        }
        if (other->text != start->text) {
            Scheduler::current().fail("divergence in " + describe(set, number) + "\n  rank " +
                                      std::to_string(other->rank) + ": " + other->text +
                                      "\n  rank " + std::to_string(start->rank) + ": " +
                                      start->text);
        }
        for (std::size_t index = 0; index < start->ids.size(); ++index) {
            const auto left = other->ids[index];
            const auto right = start->ids[index];
            if (left != 0 && right != 0 && left != right) {
                Scheduler::current().fail(
                    "divergence in " + describe(set, number) + ": rank " +
                    std::to_string(other->rank) + " has tensor " + std::to_string(left) +
                    " where rank " + std::to_string(start->rank) + " has " + std::to_string(right));
            }
        }
    }
    collective.starts[static_cast<std::size_t>(set.place)] = std::move(start);
    if (--collective.missing == 0) {
        std::vector<const coll::Task*> tasks;
        for (const auto& each : collective.starts) {
            tasks.push_back(&each->task);
        }
        for (std::size_t place = 0; place < tasks.size(); ++place) {
            collective.starts[place]->result = result_of(tasks, place);
            collective.ends.push_back(Files::in_at_most(traits_.longest_us));
            collective.starts[place]->wakeup->notify_at(collective.ends.back());
        }
    }
    return collective;
}

SimBackend::SimBackend(int rank, Fabric& fabric, coll::Reactor& reactor)
    : rank_(rank), fabric_(fabric), wakeup_(std::make_shared<EventFile>()) {
    reactor.watch(Files::current()->add(wakeup_), EPOLLIN,
                  [this](std::uint32_t) { wakeup_->drain(); });
}

std::unique_ptr<coll::Communicator> SimBackend::open(const coll::ProcessSet& set,
                                                     coll::Device /*device*/) {
    return std::make_unique<SimCommunicator>(rank_, fabric_, set, wakeup_);
}

}  // namespace hvd::sim
