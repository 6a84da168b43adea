// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/set_arena.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace hvd::coll::shm {
namespace {

constexpr std::size_t kWarm = 2;  // arenas that keep the pages of their large slots

/// The other members of the set, as ranks of the group.
std::vector<int> others_of(const ProcessSet& set, const HostMemory& memory) {
    std::vector<int> others;
    for (const int rank : set.ranks) {
        const auto at = std::ranges::find(memory.ranks, rank);
        HVD_ASSERT(at != memory.ranks.end(), "a set of ranks of this host");
        const auto local_rank = static_cast<int>(at - memory.ranks.begin());
        if (local_rank != memory.group.rank()) {
            others.push_back(local_rank);
        }
    }
    return others;
}

}  // namespace

// The areas of the group come first, then the directory that all sets share. Zero pages are a valid
// state, so that any rank may be the first to use them.
HostMemory::HostMemory(LocalGroup& of, std::size_t segment, std::vector<int> ranks_of_group)
    : group(of),
      ranks(std::move(ranks_of_group)),
      world(reinterpret_cast<RankArea*>(of.segment(segment).data()),
            static_cast<std::size_t>(of.size())),
      sets(of, of.segment(segment).subspan(world.size_bytes())) {
    if (ranks.empty()) {
        ranks.resize(world.size());
        std::iota(ranks.begin(), ranks.end(), 0);
    }
}

void WarmList::use(SetArena& arena) {
    if (!recent_.empty() && recent_.back() == &arena) {
        return;
    }
    forget(arena);
    recent_.push_back(&arena);
    for (std::size_t index = 0; recent_.size() > kWarm && index + kWarm < recent_.size();) {
        if (recent_[index]->cool()) {
            recent_.erase(recent_.begin() + static_cast<std::ptrdiff_t>(index));
        } else {
            ++index;
        }
    }
}

void WarmList::forget(const SetArena& arena) noexcept {
    std::erase(recent_, &arena);
}

/// Of a set, through the large slots.
class SetArena::LongWork final : public Work {
public:
    LongWork(SetArena& arena, std::unique_ptr<Work> work) : arena_(arena), work_(std::move(work)) {
        ++arena_.long_works_;
    }
    LongWork(const LongWork&) = delete;
    LongWork& operator=(const LongWork&) = delete;
    ~LongWork() override { --arena_.long_works_; }

    [[nodiscard]] Result<Progress> poll() override { return work_->poll(); }
    [[nodiscard]] std::vector<int> missing() const override { return work_->missing(); }

private:
    SetArena& arena_;
    std::unique_ptr<Work> work_;
};

SetArena::SetArena(HostMemory& memory) : memory_(memory) {
    arena_.emplace(memory.group, memory.world);
}

SetArena::SetArena(HostMemory& memory, ProcessSet set) : memory_(memory), set_(std::move(set)) {}

SetArena::~SetArena() {
    memory_.warm.forget(*this);
}

bool SetArena::find() {
    if (cause_) {
        throw Exception(Error(*cause_));
    }
    if (arena_) {
        return true;
    }
    auto found = memory_.sets.find(set_);
    if (!found) {
        return false;
    }
    areas_.emplace(std::move(*found));
    arena_.emplace(memory_.group, areas_->areas(), set_.place, others_of(set_, memory_));
    return true;
}

void SetArena::abort(const Error& cause) {
    cause_ = cause;
    if (arena_) {
        arena_->cause = cause;
        // The memory of its messages belongs to others again: a late member must not read it.
        arena_->own().process_number = 0;
    }
}

std::unique_ptr<Work> SetArena::keep_pages(std::unique_ptr<Work> work) {
    if (!areas_ || set_.id == 0) {
        return work;  // what belongs to the world always keeps them
    }
    memory_.warm.use(*this);
    return std::make_unique<LongWork>(*this, std::move(work));
}

// A member's swap slots are its own when no Work of it is under way; from its gather slots the
// others may still read, and after an abort from all.
bool SetArena::cool() noexcept {
    const bool is_idle =
        !cause_ && long_works_ == 0 &&
        arena_->have_all(arena_->sequences.gather,
                         [](RankArea& area) -> const Flag& { return area.gather_drained; });
    auto& own = arena_->own();
    return is_idle && ::madvise(&own.swap, sizeof own.swap + sizeof own.gather, MADV_REMOVE) == 0;
}

}  // namespace hvd::coll::shm
