// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/supervise/key_store.hpp"
#include "launcher/supervise/obituary.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

namespace hvd::launch {

/// What the ranks need of horovodrun to form worlds: the store in which they find each other, and
/// word of a peer that is lost. Thread: io.
class WorldService final {
public:
    explicit WorldService(AgentFleet& fleet) : fleet_(fleet) {}

    void on(std::size_t host, wire::Put& event);
    void on(std::size_t host, const wire::Get& event);

    void on_report(const wire::RankReport& event) { obituary_.on_report(event); }

    /// `record` knows of the end already.
    void on_exited(const RankRecord& record) { tell(obituary_.on_exited(record)); }
    void on_host_lost(const HostPlan& host, const JobRecord& record, std::string_view why) {
        tell(obituary_.on_host_lost(host, record, why));
    }

private:
    void tell(const std::optional<wire::PeerLost>& lost);

    AgentFleet& fleet_;
    KeyStore keys_;
    Obituary obituary_;
};

}  // namespace hvd::launch
