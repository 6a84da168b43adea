// SPDX-License-Identifier: Apache-2.0
//
// What `horovodrun doctor` found out, as values, and how it is printed. Pure.
#pragma once

#include "launcher/fleet/wall_clock.hpp"
#include "launcher/model/launch_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

struct HostHealth {
    std::string host;
    std::optional<HostFacts> facts{};  // nothing: its agent did not report
    double seconds_to_link = 0;        // up to the facts
    std::optional<NcclFile> nccl{};    // nothing: it was not asked
    std::optional<ClockReading> clock{};
    std::string same_as{};                // the host before that is the same machine
    std::vector<std::string> problems{};  // what keeps ranks from running, with its remedy
    std::vector<std::string> warnings{};

    [[nodiscard]] bool is_well() const noexcept { return facts && problems.empty(); }
};

struct LinkHealth {
    std::string from;  // who listened
    std::string to;    // who connected, and sent
    std::string address{};
    std::int64_t round_trip_ns = 0;
    std::uint64_t bytes_per_second = 0;
    std::string problem{};  // empty: it was measured
};

struct Diagnosis {
    std::vector<HostHealth> hosts{};
    std::optional<std::string> plan_problem{};  // why the job as asked for is refused
    std::vector<std::string> plan_warnings{};
    std::vector<LinkHealth> links{};
    std::size_t possible_links = 0;  // of which `links` are a choice

    [[nodiscard]] bool is_well() const noexcept;
};

/// Warns of hosts whose GPUs have another driver than those of the first host with GPUs.
void compare_gpu_drivers(std::vector<HostHealth>& hosts);

/// Warns of hosts with GPUs whose ranks would load another NCCL than those of the first such host.
void compare_nccl(std::vector<HostHealth>& hosts);

/// The transport's error about a host that it cannot reach, with a remedy.
[[nodiscard]] std::string with_remedy(const std::string& host, const std::string& words);

/// One line for each host, its failures below; then one for each link.
[[nodiscard]] std::string print_text(const Diagnosis& diagnosis);
[[nodiscard]] std::string print_json(const Diagnosis& diagnosis);

}  // namespace hvd::launch
