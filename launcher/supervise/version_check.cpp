// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/version_check.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::size_t kMostNames = 4;

}  // namespace

VersionCheck::VersionCheck(const std::vector<HostPlan>& hosts)
    : telling_(static_cast<std::size_t>(
          std::ranges::count_if(hosts, [](const HostPlan& plan) { return !plan.ranks.empty(); }))) {
    std::ranges::transform(hosts, std::back_inserter(hosts_), &HostPlan::host);
}

std::vector<std::string> VersionCheck::add(std::size_t host, std::string_view report) {
    if (is_over_ || host >= hosts_.size()) {
        return {};
    }
    auto& versions = told_[host];
    const auto lines = split(report, '\n');
    for (std::size_t index = 0; index < std::min(lines.size(), kMaxLines); ++index) {
        const auto space = lines[index].rfind(' ');
        if (space != std::string_view::npos) {
            versions.insert_or_assign(std::string(lines[index].substr(0, space)),
                                      std::string(lines[index].substr(space + 1)));
        }
    }
    is_over_ = told_.size() >= telling_;
    return is_over_ ? differences() : std::vector<std::string>();
}

std::vector<std::string> VersionCheck::differences() const {
    std::set<std::string, std::less<>> names;
    for (const auto& [host, versions] : told_) {
        for (const auto& [name, version] : versions) {
            names.insert(name);
        }
    }
    std::vector<std::string> sentences;
    for (const auto& name : names) {
        std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // by first host
        for (const auto& [host, versions] : told_) {
            const auto version = versions.find(name);
            if (version == versions.end()) {
                continue;
            }
            auto group = std::ranges::find(groups, version->second,
                                           [](const auto& known) { return known.first; });
            if (group == groups.end()) {
                group = groups.insert(groups.end(), {version->second, {}});
            }
            group->second.push_back(hosts_[host]);
        }
        if (groups.size() < 2) {
            continue;
        }
        std::string sentence = "hosts differ: " + name + " is ";
        for (std::size_t index = 0; index < groups.size(); ++index) {
            sentence += (index == 0 ? "" : ", but ") + groups[index].first + " on " +
                        join_first(groups[index].second, kMostNames);
        }
        sentences.push_back(std::move(sentence));
    }
    return sentences;
}

}  // namespace hvd::launch
