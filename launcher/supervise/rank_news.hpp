// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/supervise/version_roll.hpp"
#include "launcher/wire/messages.hpp"

#include <set>
#include <string>
#include <vector>

namespace hvd::launch {

/// What people are told of the reports of healthy ranks: by which addresses data goes, and where
/// hosts have different versions. Pure.
class RankNews final {
public:
    RankNews(const std::vector<HostPlan>& hosts, bool is_verbose)
        : versions_(hosts), is_verbose_(is_verbose) {}

    /// The sentences to say, if any. Other kinds of reports than `connected` and `versions` have
    /// none.
    [[nodiscard]] std::vector<std::string> add(std::size_t host, const wire::RankReport& event);

private:
    VersionRoll versions_;
    bool is_verbose_;
    std::set<std::string> told_ways_;  // between hosts
};

}  // namespace hvd::launch
