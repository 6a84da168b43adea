// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/supervise/version_check.hpp"
#include "launcher/wire/messages.hpp"

#include <set>
#include <string>
#include <vector>

namespace hvd::launch {

/// The messages about reports of healthy ranks: the addresses that carry data, and different
/// versions on hosts. Pure.
class RankReports final {
public:
    RankReports(const std::vector<HostPlan>& hosts, bool is_verbose)
        : versions_(hosts), is_verbose_(is_verbose) {}

    /// The sentences to say, if any. Other kinds of reports than `connected` and `versions` have
    /// none.
    [[nodiscard]] std::vector<std::string> add(std::size_t host, const wire::RankReport& event);

private:
    VersionCheck versions_;
    bool is_verbose_;
    std::set<std::string> told_routes_;  // between hosts
};

}  // namespace hvd::launch
