// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/host_clocks.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json to_json(const HostClock& host) {
    auto samples = Json::array();
    for (const auto& sample : host.samples) {
        samples.push_back({sample.at_ns, sample.ahead_ns, sample.error_ns});
    }
    return {{"host", host.host},
            {"ranks", format_ranges(host.ranks)},
            {"samples_ns", std::move(samples)}};
}

/// Errors: those of Json, thrown, and invalid_argument.
Result<HostClock> read_host(const Json& json) {
    HostClock host{.host = json.at("host").get<std::string>()};
    const auto ranks = json.at("ranks").get<std::string>();
    if (!ranks.empty()) {
        auto numbers = parse_ranges(ranks);
        if (!numbers) {
            return Error{Errc::invalid_argument, "'" + ranks + "' are no ranks such as 0-3,8"};
        }
        host.ranks = *std::move(numbers);
    }
    for (const auto& sample : json.at("samples_ns")) {
        host.samples.push_back({.at_ns = sample.at(0).get<std::int64_t>(),
                                .ahead_ns = sample.at(1).get<std::int64_t>(),
                                .error_ns = sample.at(2).get<std::int64_t>()});
    }
    std::ranges::sort(host.samples, {}, &ClockSample::at_ns);
    return host;
}

}  // namespace

std::string to_json(const HostClocks& clocks) {
    auto hosts = Json::array();
    for (const auto& host : clocks.hosts) {
        hosts.push_back(to_json(host));
    }
    const Json json{{"version", kVersion},       {"job", clocks.job},
                    {"clock", clocks.clock},     {"steady_ns", clocks.steady_ns},
                    {"wall_ns", clocks.wall_ns}, {"hosts", std::move(hosts)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<HostClocks> parse_host_clocks(std::string_view text) {
    try {
        const auto json = Json::parse(text);
        if (json.at("version") != kVersion) {
            return Error{Errc::invalid_argument, "version " + json.at("version").dump() +
                                                     ", but this horovodrun reads " +
                                                     std::to_string(kVersion)};
        }
        HostClocks clocks{.job = json.at("job").get<std::string>(),
                          .clock = json.at("clock").get<std::string>(),
                          .steady_ns = json.at("steady_ns").get<std::int64_t>(),
                          .wall_ns = json.at("wall_ns").get<std::int64_t>()};
        for (const auto& each : json.at("hosts")) {
            HVD_TRY(auto host, read_host(each));
            clocks.hosts.push_back(std::move(host));
        }
        return clocks;
    } catch (const Json::exception& error) {  // this library reports by throwing
        return Error{Errc::invalid_argument, error.what()};
    }
}

}  // namespace hvd::launch
