// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/plan_frames.hpp"

#include "launcher/wire/frames.hpp"

#include <string>
#include <utility>

namespace hvd::launch {
namespace {

Error too_long(const HostPlan& host, std::size_t bytes) {
    constexpr std::size_t kMiB = std::size_t{1} << 20;
    return {Errc::invalid_argument,
            "host " + host.host + ": the plan of its " + std::to_string(host.ranks.size()) +
                " ranks has " + std::to_string(bytes / kMiB) + " MiB, and its agent takes " +
                std::to_string(wire::kMaxFrame / kMiB) +
                "; start fewer ranks there, or leave long arguments and variables in a file"};
}

template <class MakeMessage>
Result<std::vector<Frame>> encode_all(const LaunchPlan& plan, MakeMessage make_message) {
    std::vector<Frame> frames;
    for (const auto& host : plan.hosts) {
        auto frame = wire::encode(wire::ToAgent(make_message(host)));
        if (frame.size() > wire::kMaxFrame) {
            return too_long(host, frame.size());
        }
        frames.push_back(std::move(frame));
    }
    return frames;
}

}  // namespace

Result<std::vector<Frame>> encode_checks(const LaunchPlan& plan) {
    return encode_all(plan, [&](const HostPlan& host) {
        return wire::Check{.job = plan.job, .plan = host, .np = plan.np};
    });
}

Result<std::vector<Frame>> encode_starts(const LaunchPlan& plan) {
    const auto window = wire::output_window(plan.hosts.size());
    return encode_all(plan, [&](const HostPlan& host) {
        return wire::Start{.job = plan.job, .plan = host, .output_window = window};
    });
}

}  // namespace hvd::launch
