// SPDX-License-Identifier: Apache-2.0
//
// Decides which end of a rank the other ranks get a notice of. No I/O.
#pragma once

#include "launcher/model/launch_plan.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/wire/messages.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The runtime of a rank sees the end of a peer by the end of its connections, unless the peer's
/// children hold these open or its host fell silent. The agents know better.
///
/// Only the first loss of a world is reported: a world that lacks a rank is at its end, and ranks
/// that fail because of it need no notice. A rank that ends in order, or before its first world, is
/// a loss once another rank enters a world that needs it.
class PeerFailureNotice final {
public:
    /// A rank's report.
    void on_report(const wire::RankReport& event);

    /// A rank puts a key into the store, or gets one, by which it enters a world. Returns
    /// a notice where the world lacks a rank that has ended.
    [[nodiscard]] std::optional<wire::PeerLost> on_put(int rank, std::string_view key);
    [[nodiscard]] std::optional<wire::PeerLost> on_get(int rank, std::string_view key);

    /// A rank asks for the members of a world, which may do without those that have ended.
    void on_ask(int rank, int world);

    /// These ranks form a world, without those that have ended. From now on their ends count.
    void on_new_world(const std::vector<int>& ranks, const JobRecord& record);

    /// The ranks that live and have not entered the world which `waiting` has entered last.
    [[nodiscard]] std::vector<int> late_ranks(int waiting, const JobRecord& record) const;

    /// Returns the notice, if one is due. `record` has the end already.
    [[nodiscard]] std::optional<wire::PeerLost> on_exited(const RankRecord& record);
    [[nodiscard]] std::optional<wire::PeerLost> on_host_lost(const HostPlan& host,
                                                             const JobRecord& record,
                                                             std::string_view why);

private:
    struct Leaver {
        int rank = 0;
        std::string why;
    };

    [[nodiscard]] std::optional<wire::PeerLost> missed_leaver();
    [[nodiscard]] int worlds_of(int rank) const;

    std::set<int> inside_;         // of a world
    std::set<int> finished_;       // have left their last world in order
    std::map<int, int> worlds_;    // how many a rank has entered
    int most_worlds_ = 0;          // that any rank has entered
    std::vector<Leaver> leavers_;  // have ended where nobody missed them
    std::set<int> recovered_;      // from the loss of a peer that they have reported
    bool has_told_ = false;
};

}  // namespace hvd::launch
