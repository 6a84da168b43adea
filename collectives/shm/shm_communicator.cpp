// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/shm_communicator.hpp"

#include "collectives/algorithms/schedules.hpp"
#include "collectives/done_work.hpp"
#include "collectives/shm/works.hpp"

#include <algorithm>
#include <utility>

#include <sys/mman.h>

namespace hvd::coll::shm {
namespace {

constexpr std::size_t kWarm = 2;  // communicators that keep the pages of their large slots

/// Of any member: the same number on all of them, which decides how they work together.
[[nodiscard]] std::size_t largest_input(const Task& task, int members) {
    if (task.op != Op::allgather) {
        return input_bytes(task);
    }
    std::size_t largest = 0;
    for (std::size_t place = 0; place < static_cast<std::size_t>(members); ++place) {
        std::size_t elements = 0;
        for (const auto& segment : task.segments) {
            elements += segment.counts[place];
        }
        largest = std::max(largest, elements);
    }
    return largest * size_of(task.type);
}

}  // namespace

void WarmList::use(ShmCommunicator& communicator) {
    if (!recent_.empty() && recent_.back() == &communicator) {
        return;
    }
    forget(communicator);
    recent_.push_back(&communicator);
    for (std::size_t index = 0; recent_.size() > kWarm && index + kWarm < recent_.size();) {
        if (recent_[index]->cool()) {
            recent_.erase(recent_.begin() + static_cast<std::ptrdiff_t>(index));
        } else {
            ++index;
        }
    }
}

void WarmList::forget(const ShmCommunicator& communicator) noexcept {
    std::erase(recent_, &communicator);
}

/// Of a set whose areas have not been found: finds them, then runs the task.
class ShmCommunicator::FirstWork final : public Work {
public:
    FirstWork(ShmCommunicator& communicator, Task task)
        : communicator_(communicator), task_(std::move(task)) {}

    [[nodiscard]] Result<Progress> poll() override {
        if (!work_) {
            if (communicator_.cause_) {
                return Error(*communicator_.cause_);
            }
            // An exception is a value here, as in Communicator::start.
            try {
                if (!communicator_.find_areas()) {
                    return Progress::pending;
                }
                work_ = communicator_.begin(task_);
            } catch (const Exception& exception) {
                communicator_.cause_ = exception.error();
                return Error(*communicator_.cause_);
            }
        }
        return work_->poll();
    }

    [[nodiscard]] std::vector<int> missing() const override {
        return work_ ? work_->missing() : std::vector<int>{};
    }

private:
    ShmCommunicator& communicator_;
    Task task_;
    std::unique_ptr<Work> work_;
};

/// Of a set, through the large slots.
class ShmCommunicator::LongWork final : public Work {
public:
    LongWork(ShmCommunicator& communicator, std::unique_ptr<Work> work)
        : communicator_(communicator), work_(std::move(work)) {
        ++communicator_.long_works_;
    }
    LongWork(const LongWork&) = delete;
    LongWork& operator=(const LongWork&) = delete;
    ~LongWork() override { --communicator_.long_works_; }

    [[nodiscard]] Result<Progress> poll() override { return work_->poll(); }
    [[nodiscard]] std::vector<int> missing() const override { return work_->missing(); }

private:
    ShmCommunicator& communicator_;
    std::unique_ptr<Work> work_;
};

ShmCommunicator::ShmCommunicator(const Backend& backend, Shared& shared, std::span<RankArea> areas)
    : HostCommunicator(backend), shared_(shared) {
    arena_.emplace(shared.group, areas);
}

ShmCommunicator::ShmCommunicator(const Backend& backend,
                                 Shared& shared,
                                 ProcessSet set,
                                 std::vector<int> local_ranks)
    : HostCommunicator(backend),
      shared_(shared),
      set_(std::move(set)),
      local_ranks_(std::move(local_ranks)) {}

ShmCommunicator::~ShmCommunicator() {
    shared_.warm.forget(*this);
}

bool ShmCommunicator::find_areas() {
    if (arena_) {
        return true;
    }
    auto found = shared_.memory.find(set_);
    if (!found) {
        return false;
    }
    areas_.emplace(std::move(*found));
    arena_.emplace(shared_.group, areas_->areas(), set_.place, std::move(local_ranks_));
    return true;
}

std::unique_ptr<Work> ShmCommunicator::do_start(const Task& task) {
    if (cause_) {
        throw Exception(Error(*cause_));
    }
    return find_areas() ? begin(task) : std::make_unique<FirstWork>(*this, task);
}

std::unique_ptr<Work> ShmCommunicator::begin(const Task& task) {
    const bool has_adasum = task.op == Op::allreduce && is_adasum(task.reduce);
    const std::size_t bytes = largest_input(task, arena_->size());
    // How much a member of an alltoall puts in, the others do not know.
    if (bytes == 0 && task.op != Op::barrier && task.op != Op::alltoall) {
        return std::make_unique<DoneWork>();
    }
    if (bytes <= kSmallBytes && !has_adasum && task.op != Op::alltoall) {
        return start_exchange(*arena_, task, bytes);
    }
    if (!areas_) {
        return begin_long(task, bytes);
    }
    shared_.warm.use(*this);
    return std::make_unique<LongWork>(*this, begin_long(task, bytes));
}

std::unique_ptr<Work> ShmCommunicator::begin_long(const Task& task, std::size_t bytes) {
    const bool has_adasum = task.op == Op::allreduce && is_adasum(task.reduce);
    if (has_adasum || task.op == Op::alltoall) {
        if (!endpoint_) {
            endpoint_.emplace(*arena_);
        }
        const std::vector<int> one_host(static_cast<std::size_t>(arena_->size()));
        return start_schedule(*endpoint_, shared_.scratch, task, one_host);
    }
    if (task.op == Op::allreduce) {
        return start_swap(*arena_, task);
    }
    return task.op == Op::reducescatter ? start_reducescatter(*arena_, task)
                                        : start_gather(*arena_, task, bytes);
}

void ShmCommunicator::do_abort(const Error& cause) {
    cause_ = cause;
    if (arena_) {
        arena_->cause = cause;
    }
}

// A member's swap slots are its own when no Work of it is under way; from its gather slots the
// others may still read.
bool ShmCommunicator::cool() noexcept {
    const bool is_idle = long_works_ == 0 && arena_->have_all(arena_->sequences.gather,
                                                              [](RankArea& area) -> const Flag& {
                                                                  return area.gather_drained;
                                                              });
    auto& own = arena_->own();
    return is_idle && ::madvise(&own.swap, sizeof own.swap + sizeof own.gather, MADV_REMOVE) == 0;
}

}  // namespace hvd::coll::shm
