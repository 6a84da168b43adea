// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/link_pairs.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/net/timer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvd::launch {

/// The addresses and ports that the user allows for the data between hosts.
struct LinkOptions {
    std::string interfaces{};  // HOROVOD_NETWORK_INTERFACES
    std::string ports{};       // HOROVOD_PORT_RANGE
};

/// Has the agents measure the links between their hosts: of each pair one listens and the other
/// connects, so many pairs at once that no host is in two. Its owner hands it the fleet's events.
/// Thread: io.
class LinkMeasurement final {
public:
    /// `hosts` are those to measure. Results go to `diagnosis`. All outlive this object.
    LinkMeasurement(IoThread& io,
                    AgentFleet& fleet,
                    Diagnosis& diagnosis,
                    std::vector<std::size_t> hosts,
                    LinkOptions options);

    /// Until every pair is measured, has failed or was silent for 15 s, or somebody stops the loop.
    void run();

    void on_message(std::size_t host, wire::FromAgent message);
    void on_end(std::size_t host);

private:
    void on(std::size_t host, wire::LinkOpen& link);
    void on(std::size_t host, wire::LinkMeasured& link);
    void on(std::size_t /*host*/, const auto& /*message*/) {}

    void begin_pairs();
    void end_pair(std::size_t pair, const std::string& problem);
    void expect_progress();
    void fail_stalled_pairs();
    [[nodiscard]] std::size_t listener_of(std::size_t pair) const;
    [[nodiscard]] std::size_t caller_of(std::size_t pair) const;
    [[nodiscard]] bool is_under_way(std::uint32_t pair) const;

    IoThread& io_;
    AgentFleet& fleet_;
    Diagnosis& diagnosis_;
    std::vector<std::size_t> hosts_;  // what the pairs number
    LinkOptions options_;
    PairSchedule schedule_;
    std::vector<bool> is_open_;                    // by pair: it is under way
    std::vector<std::vector<std::byte>> secrets_;  // by pair
    Timer limit_;
};

}  // namespace hvd::launch
