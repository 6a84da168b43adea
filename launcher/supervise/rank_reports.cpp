// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/rank_reports.hpp"

#include <string_view>

namespace hvd::launch {
namespace {

/// The first few of the hosts that a report lists, and how many there are besides.
std::string in_short(const std::string& ways) {
    constexpr std::string_view kBetween = ",;";  // those by one address, and by another
    constexpr int kMostHosts = 4;
    std::size_t end = 0;
    int hosts = 1;
    for (auto at = ways.find_first_of(kBetween); at != std::string::npos;
         at = ways.find_first_of(kBetween, at + 1), ++hosts) {
        end = hosts == kMostHosts ? at : end;
    }
    const bool is_cut = ways.ends_with("...");
    return hosts <= kMostHosts
               ? ways
               : ways.substr(0, end) + " and " +
                     (is_cut ? "many" : std::to_string(hosts - kMostHosts)) + " more (--verbose)";
}

}  // namespace

std::vector<std::string> RankReports::add(std::size_t host, const wire::RankReport& event) {
    const auto& text = event.report.text;
    if (event.report.kind == coll::ReportKind::versions) {
        return versions_.add(host, text);
    }
    // Worlds that begin anew mostly take the same addresses. Those of the first host show how all
    // go, and others can be many.
    if (event.report.kind == coll::ReportKind::connected && (is_verbose_ || event.rank == 0) &&
        told_routes_.insert(text).second) {
        return {"data goes over tcp from " + (is_verbose_ ? text : in_short(text))};
    }
    return {};
}

}  // namespace hvd::launch
