// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/coordinator_driver.hpp"

#include "runtime/engine/coarse_clock.hpp"
#include "runtime/tensor/process_set_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::rt {

CoordinatorDriver::CoordinatorDriver(Channel& channel,
                                     TicketTable& tickets,
                                     Coordinator coordinator,
                                     coll::ProcessSet world,
                                     std::optional<std::size_t> fusion_bytes)
    : channel_(channel),
      coordinator_(std::move(coordinator)),
      tickets_(tickets),
      fusion_bytes_(fusion_bytes) {
    readers_.emplace(0, std::move(world));
}

Result<bool> CoordinatorDriver::step() {
    std::vector<LogEntry> entries;
    bool has_heard = false;
    while (true) {
        HVD_TRY(auto heard, channel_.next_announcement());
        if (!heard) {
            break;
        }
        HVD_TRY(auto announcement, decode_announcement(heard->message));
        if (announcement.ends_world) {
            end_world_of(heard->rank, {Errc::internal, std::move(announcement.failure)});
            return true;
        }
        has_heard = true;
        show(heard->rank, announcement);
        longest_wait_ = std::max(longest_wait_, announcement.waited);
        HVD_TRY(auto more,
                coordinator_.announce(heard->rank, std::move(announcement), coarse_now()));
        entries.insert(entries.end(), std::make_move_iterator(more.begin()),
                       std::make_move_iterator(more.end()));
    }
    if (has_heard) {
        has_waiting_ = coordinator_.has_waiting();
    }
    if (entries.empty()) {
        return false;
    }
    append(std::move(entries));
    return true;
}

void CoordinatorDriver::show(int rank, const Announcement& announcement) const {
    auto* const observer = tickets_.observer();
    if (observer == nullptr || announcement.asks_for_names) {
        return;
    }
    for (const auto& member : announcement.members) {
        observer->on_announced(announcement.process_set, member.name, rank);
    }
}

/// Decisions that were made together about a set are chained, up to the next change of members.
void CoordinatorDriver::append(std::vector<LogEntry> entries) {
    std::vector<bool> more(entries.size());
    std::map<int, bool> is_followed;  // by set: by another decision
    for (std::size_t index = entries.size(); index-- > 0;) {
        const auto* decision = std::get_if<Decision>(&entries[index]);
        if (decision == nullptr) {
            continue;
        }
        if (kind_of(*decision) != Kind::collective) {
            is_followed.clear();
            continue;
        }
        more[index] = std::exchange(is_followed[decision->process_set], true);
    }
    for (std::size_t index = 0; index < entries.size(); ++index) {
        if (auto* decision = std::get_if<Decision>(&entries[index])) {
            append(std::move(*decision), more[index]);
        } else {
            const auto& invalidation = std::get<Invalidation>(entries[index]);
            channel_.append_invalidation(readers_.at(invalidation.process_set), invalidation.id);
        }
    }
}

void CoordinatorDriver::end_world(int culprit, const std::string& name, const Error& error) {
    Decision decision;
    decision.members = {{.name = name, .signature = {}}};
    decision.error = error;
    decision.rank = culprit;
    decision.ends_world = true;
    append(std::move(decision), false);
    (void)channel_.flush();
}

void CoordinatorDriver::end_world_of(int rank, const Error& cause) {
    end_world(rank, "the world",
              {Errc::aborted, channel_.describe(rank) + " has failed: " + cause.message});
}

void CoordinatorDriver::append(Decision decision, bool more) {
    decision.fusion_bytes = fusion_bytes_;
    channel_.append_decision(readers_.at(decision.process_set), encode(decision), decision.id,
                             more);
    if (decision.error) {
        return;
    }
    if (kind_of(decision) == Kind::add_process_set) {
        readers_.emplace(
            decision.set_id,
            make_process_set(decision.set_id, decision.members.front().signature.splits,
                             readers_.at(0)));
    } else if (kind_of(decision) == Kind::remove_process_set) {
        readers_.erase(decision.set_id);
    }
}

}  // namespace hvd::rt
