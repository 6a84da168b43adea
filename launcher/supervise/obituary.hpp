// SPDX-License-Identifier: Apache-2.0
//
// Which end of a rank the other ranks must be told of. Decides, and does no I/O.
#pragma once

#include "launcher/plan/process_spec.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/wire/messages.hpp"

#include <optional>
#include <set>
#include <string_view>

namespace hvd::launch {

/// The runtime of a rank sees the end of a peer by the end of its connections, unless the peer's
/// children hold these open or its host fell silent. The agents know better.
///
/// The first loss is told and no other: a world that lacks a rank is at its end, and those who fail
/// because of it need no word.
class Obituary final {
public:
    /// A rank has left something in the store, which is how it enters a world, and what it
    /// reported.
    void on_put(int rank);
    void on_report(const wire::RankReport& event);

    /// What is to be told, if anything. `record` knows of the end already.
    [[nodiscard]] std::optional<wire::PeerLost> on_exited(const RankRecord& record);
    [[nodiscard]] std::optional<wire::PeerLost> on_host_lost(const HostPlan& host,
                                                             const JobRecord& record,
                                                             std::string_view why);

private:
    std::set<int> inside_;    // of a world
    std::set<int> finished_;  // have left their last world in order
    bool has_told_ = false;
};

}  // namespace hvd::launch
