// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/supervise/key_store.hpp"
#include "launcher/supervise/peer_failure_notice.hpp"
#include "launcher/supervise/world_members.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The launcher's services for forming worlds: the store in which ranks find each other, and
/// notices of lost peers. Thread: io.
class WorldService final {
public:
    explicit WorldService(AgentFleet& fleet) : fleet_(fleet) {}

    void on(std::size_t host, wire::Put& event, const JobRecord& record);
    void on(std::size_t host, const wire::Get& event, const JobRecord& record);

    void on_report(const wire::RankReport& event) { peer_failures_.on_report(event); }

    /// The rank has given up hvd.init(). Returns the ranks that have not come to it, and asks the
    /// agents for the activity of those that nobody has missed before.
    [[nodiscard]] std::vector<int> on_start_timeout(int rank, const JobRecord& record);

    /// `record` knows of the end already.
    void on_exited(int rank, const JobRecord& record);
    void on_host_lost(const HostPlan& host, const JobRecord& record, std::string_view why);

private:
    void tell(const std::optional<wire::PeerLost>& lost);
    void tell_members(const JobRecord& record);

    AgentFleet& fleet_;
    KeyStore keys_;
    WorldMembers members_;
    PeerFailureNotice peer_failures_;
};

}  // namespace hvd::launch
