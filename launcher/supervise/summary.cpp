// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/supervise/job_result.hpp"

#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSummaryVersion = 1;

Json optional_number(const std::optional<int>& value) {
    return value ? Json(*value) : Json(nullptr);
}

/// A rank that was never started has none.
Json pid_or_null(int pid) {
    return pid == 0 ? Json(nullptr) : Json(pid);
}

/// To the microsecond: more digits than that are noise.
Json seconds(double value) {
    constexpr double kMicroseconds = 1e6;
    return static_cast<double>(static_cast<std::int64_t>(value * kMicroseconds)) / kMicroseconds;
}

Json to_json(const Culprit& culprit) {
    const auto& rank = culprit.rank;
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"local_rank", rank.local_rank},
            {"pid", pid_or_null(rank.pid)},
            {"exit_code", optional_number(rank.exit_code)},
            {"signal", rank.signal ? Json(signal_name(*rank.signal)) : Json(nullptr)},
            {"message", culprit.message.empty() ? culprit.what : culprit.message},
            {"stderr_tail", culprit.stderr_tail},
            {"failed_ranks", culprit.failed_ranks},
            {"seconds_before_next",
             culprit.lead_seconds ? seconds(*culprit.lead_seconds) : Json(nullptr)},
            {"same_ranks", culprit.same_ranks}};
}

Json lost_host(const std::string& host, const std::string& why) {
    return {{"rank", nullptr},
            {"host", host},
            {"local_rank", nullptr},
            {"pid", nullptr},
            {"exit_code", nullptr},
            {"signal", nullptr},
            {"message", why},
            {"stderr_tail", Json::array()},
            {"failed_ranks", nullptr},
            {"seconds_before_next", nullptr},
            {"same_ranks", Json::array()}};
}

Json culprit(const JobResult& result) {
    if (result.culprit) {
        return to_json(*result.culprit);
    }
    return result.lost_host ? lost_host(*result.lost_host, result.sentence) : Json(nullptr);
}

Json to_json(const RankResult& rank) {
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"pid", pid_or_null(rank.pid)},
            {"exit_code", optional_number(rank.exit_code)},
            {"signal", rank.signal ? Json(signal_name(*rank.signal)) : Json(nullptr)},
            {"class", to_string(rank.rank_class)},
            {"seconds", seconds(rank.seconds)},
            {"max_rss_bytes", rank.max_rss_bytes}};
}

Json to_json(const LauncherResult& launcher) {
    auto json = to_json(launcher.process);
    json.erase("rank");
    json.erase("class");
    json["line"] = launcher.line;
    return json;
}

}  // namespace

std::string format_summary(const JobResult& result) {
    Json json = {
        {"version", kSummaryVersion},
        {"job_id", result.job_id},
        {"outcome", result.is_success() ? "success" : "failed"},
        {"exit_code", result.exit_code},
        {"reason", result.reason == Reason::none ? Json(nullptr) : Json(to_string(result.reason))},
        {"seconds", seconds(result.seconds)},
        {"culprit", culprit(result)},
        {"ranks", Json::array()},
        {"hosts", Json::array()},
        {"survivors", Json::array()},
        {"unswept", Json::array()},
        {"warnings", result.warnings}};
    if (!result.sentence.empty()) {
        json["warnings"].insert(json["warnings"].begin(), result.sentence);
    }
    if (result.launcher) {
        json["launcher"] = to_json(*result.launcher);
    }
    for (const auto& rank : result.ranks) {
        json["ranks"].push_back(to_json(rank));
    }
    for (const auto& host : result.hosts) {
        json["hosts"].push_back({{"host", host.host},
                                 {"state", host.state},
                                 {"error", host.error.empty() ? Json(nullptr) : Json(host.error)}});
    }
    for (const auto& [host, process] : result.survivors) {
        json["survivors"].push_back({{"host", host},
                                     {"pid", process.pid},
                                     {"state", process.state},
                                     {"wchan", process.wchan}});
    }
    for (const auto& [host, why] : result.unswept) {
        json["unswept"].push_back({{"host", host}, {"why", why}});
    }
    // Ranks may write any bytes; JSON is UTF-8.
    constexpr int kIndent = 2;
    return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hvd::launch
