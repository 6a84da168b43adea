// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_mailboxes.hpp"

#include "collectives/base/assert.hpp"

#include <utility>

namespace hvd::rt {

ShmMailboxes::ShmMailboxes(coll::LocalGroup& group, std::span<RankPage> pages)
    : group_(group),
      rank_(group.rank()),
      announcements_(pages[static_cast<std::size_t>(rank_)].to_coordinator),
      decisions_(pages[static_cast<std::size_t>(rank_)].from_coordinator) {
    if (coordinates()) {
        for (auto& page : pages) {
            from_ranks_.emplace_back(page.to_coordinator);
            to_ranks_.emplace_back(page.from_coordinator);
        }
    }
}

void ShmMailboxes::send_announcement(std::vector<std::byte> message) {
    if (coordinates()) {
        own_announcements_.push_back(std::move(message));
    } else {
        announcements_.put(message);  // sent by the next flush, many at once
    }
}

bool ShmMailboxes::flush() {
    if (coordinates()) {
        return output_waits_ && flush_decisions();
    }
    const bool has_moved = announcements_.flush();
    output_waits_ = announcements_.is_waiting();
    if (has_moved) {
        group_.notify_always(0);  // a coordinator may expect nothing for itself
    }
    return has_moved;
}

Result<std::optional<Channel::Heard>> ShmMailboxes::next_announcement() {
    if (!own_announcements_.empty()) {
        auto message = std::move(own_announcements_.front());
        own_announcements_.pop_front();
        return std::optional(Channel::Heard{.rank = 0, .message = std::move(message)});
    }
    for (std::size_t tried = 0; tried < from_ranks_.size(); ++tried) {
        const auto rank = next_rank_;
        next_rank_ = (next_rank_ + 1) % from_ranks_.size();
        HVD_TRY(auto message, from_ranks_[rank].next());
        if (from_ranks_[rank].must_wake_writer()) {
            group_.notify(static_cast<int>(rank));
        }
        if (message) {
            return std::optional(
                Channel::Heard{.rank = static_cast<int>(rank), .message = *std::move(message)});
        }
    }
    return std::optional<Channel::Heard>{};
}

void ShmMailboxes::send_decision(const coll::ProcessSet& readers,
                                 const std::vector<std::byte>& message) {
    for (const int rank : readers.ranks) {
        if (rank == rank_) {
            own_decisions_.push_back(message);
        } else {
            to_ranks_[static_cast<std::size_t>(rank)].put(message);
        }
    }
    (void)flush_decisions();
}

bool ShmMailboxes::flush_decisions() {
    bool has_moved = false;
    output_waits_ = false;
    for (std::size_t rank = 1; rank < to_ranks_.size(); ++rank) {
        if (to_ranks_[rank].flush()) {
            group_.notify(static_cast<int>(rank));
            has_moved = true;
        }
        output_waits_ = output_waits_ || to_ranks_[rank].is_waiting();
    }
    return has_moved;
}

Result<std::optional<std::vector<std::byte>>> ShmMailboxes::next_decision() {
    if (coordinates()) {
        HVD_ASSERT(!own_decisions_.empty(), "the decision was put here before its log entry");
        auto message = std::move(own_decisions_.front());
        own_decisions_.pop_front();
        return std::optional(std::move(message));
    }
    auto message = decisions_.next();
    if (decisions_.must_wake_writer()) {
        group_.notify(0);
    }
    return message;
}

}  // namespace hvd::rt
