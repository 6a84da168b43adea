// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/peer_failure_notice.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "launcher/supervise/job_result.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <sys/wait.h>

namespace hvd::launch {
namespace {

std::string name_of(const RankRecord& rank) {
    return "rank " + std::to_string(rank.rank) +
           (rank.started ? " (pid " + std::to_string(rank.started->pid) + " on host "
                         : " (on host ") +
           rank.host + ")";
}

std::string end_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? "killed by " + signal_name(WTERMSIG(wait_status))
                                    : "exit " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace

std::optional<wire::PeerLost> PeerFailureNotice::on_put(int rank, std::string_view key) {
    inside_.insert(rank);
    finished_.erase(rank);
    return on_get(rank, key);
}

std::optional<wire::PeerLost> PeerFailureNotice::on_get(int rank, std::string_view key) {
    const auto world = coll::world_of(key);
    if (!world) {
        return std::nullopt;
    }
    auto& worlds = worlds_[rank];
    worlds = std::max(worlds, *world + 1);
    if (worlds <= most_worlds_) {
        return std::nullopt;
    }
    most_worlds_ = worlds;
    return missed_leaver();
}

void PeerFailureNotice::on_ask(int rank, int world) {
    auto& worlds = worlds_[rank];
    worlds = std::max(worlds, world + 1);
}

void PeerFailureNotice::on_new_world(const std::vector<int>& ranks, const JobRecord& record) {
    has_told_ = false;
    leavers_.clear();
    recovered_.clear();
    for (const int rank : ranks) {
        inside_.insert(rank);
        finished_.erase(rank);
        if (record.ranks.at(static_cast<std::size_t>(rank)).peer_lost) {
            recovered_.insert(rank);
        }
    }
}

std::optional<wire::PeerLost> PeerFailureNotice::missed_leaver() {
    const auto leaver = std::ranges::find_if(
        leavers_, [&](const Leaver& each) { return worlds_[each.rank] < most_worlds_; });
    if (has_told_ || leaver == leavers_.end()) {
        return std::nullopt;
    }
    has_told_ = true;
    return wire::PeerLost{.rank = leaver->rank, .why = leaver->why};
}

void PeerFailureNotice::on_report(const wire::RankReport& event) {
    if (event.report.kind == coll::ReportKind::finished) {
        inside_.erase(event.rank);
        finished_.insert(event.rank);
    }
}

int PeerFailureNotice::worlds_of(int rank) const {
    const auto found = worlds_.find(rank);
    return found == worlds_.end() ? 0 : found->second;
}

std::vector<int> PeerFailureNotice::late_ranks(int waiting, const JobRecord& record) const {
    std::vector<int> late;
    for (const auto& rank : record.ranks) {
        if (!rank.has_ended() && worlds_of(rank.rank) < worlds_of(waiting)) {
            late.push_back(rank.rank);
        }
    }
    return late;
}

std::optional<wire::PeerLost> PeerFailureNotice::on_exited(const RankRecord& record) {
    const auto& exited = *record.exited;
    const bool is_missed = inside_.contains(record.rank) ||
                           (exited.wait_status != 0 && !finished_.contains(record.rank));
    const bool has_lost_peer = record.peer_lost && !recovered_.contains(record.rank);
    const bool has_given_up =
        has_lost_peer && record.peer_lost->report.kind == coll::ReportKind::start_timeout;
    if (has_told_ || exited.is_killed_by_launcher || (has_lost_peer && !has_given_up)) {
        return std::nullopt;
    }
    if (!is_missed) {
        leavers_.push_back({.rank = record.rank,
                            .why = name_of(record) + " has ended without " +
                                   (worlds_[record.rank] == 0 ? "a" : "another") +
                                   " call of hvd.init(): " + end_of(exited.wait_status)});
        return missed_leaver();
    }
    has_told_ = true;
    if (has_given_up) {
        return wire::PeerLost{.rank = record.rank,
                              .why = name_of(record) +
                                     " has given up hvd.init(), to which other ranks came late: " +
                                     end_of(exited.wait_status)};
    }
    return wire::PeerLost{
        .rank = record.rank,
        .why = name_of(record) + " has died: " + end_of(exited.wait_status) +
               (exited.wait_status == 0 ? ", without leaving its world (hvd.shutdown())" : "")};
}

std::optional<wire::PeerLost> PeerFailureNotice::on_host_lost(const HostPlan& host,
                                                              const JobRecord& record,
                                                              std::string_view why) {
    for (const auto& spec : host.ranks) {
        const auto& rank = record.ranks.at(static_cast<std::size_t>(spec.rank));
        if (!has_told_ && !rank.has_ended() && !finished_.contains(rank.rank)) {
            has_told_ = true;
            return wire::PeerLost{
                .rank = rank.rank,
                .why = name_of(rank) + " is lost with its host: " + std::string(why)};
        }
    }
    return std::nullopt;
}

}  // namespace hvd::launch
