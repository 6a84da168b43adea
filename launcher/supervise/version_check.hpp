// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The software versions on each host, as one rank of each reports them: hosts of one job with
/// different versions fail late and in strange ways, if at all.
class VersionCheck final {
public:
    static constexpr std::size_t kMaxLines = 64;  // of one report; more are not read

    explicit VersionCheck(const std::vector<HostPlan>& hosts);

    /// `report` has lines "NAME VERSION", of which the last word is the version. Once every host
    /// with ranks has told: a sentence for each name that has not one version everywhere, told
    /// once. What a host does not name, such as a framework that only rank 0 imports, is no
    /// difference.
    [[nodiscard]] std::vector<std::string> add(std::size_t host, std::string_view report);

private:
    using Versions = std::map<std::string, std::string, std::less<>>;  // by name

    [[nodiscard]] std::vector<std::string> differences() const;

    std::vector<std::string> hosts_;
    std::size_t telling_;                   // those that have ranks
    std::map<std::size_t, Versions> told_;  // by host
    bool is_over_ = false;
};

}  // namespace hvd::launch
