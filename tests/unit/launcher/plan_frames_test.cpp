// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/plan_frames.hpp"

#include "launcher/plan/planner.hpp"
#include "launcher/wire/frames.hpp"
#include "tests/unit/launcher/plan_on.hpp"

#include <catch2/catch.hpp>

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hvd::launch {
namespace {

LaunchPlan plan_for(int ranks, std::string argument) {
    LaunchRequest request;
    request.processes = ranks;
    request.hosts.list = {{"node7", {}}};
    request.command = {"train", std::move(argument)};
    HostFacts facts;
    facts.cpus.resize(static_cast<std::size_t>(ranks));
    return test::plan_on(request, {facts}, "ssh").value().plan;
}

TEST_CASE("a command travels once to each host, not once for each of its ranks") {
    const std::string argument(1'000'000, 'x');
    const auto plan = plan_for(64, argument);

    for (const auto& frames : {encode_checks(plan), encode_starts(plan)}) {
        REQUIRE(frames);
        REQUIRE(frames->size() == 1);
        CHECK(frames->front().size() < 2 * argument.size());
    }
}

TEST_CASE("the first credit of each host is its share of the budget for output") {
    const auto count = GENERATE(values<std::size_t>({1, 300}));
    LaunchRequest request;
    for (std::size_t number = 0; number < count; ++number) {
        request.hosts.list.push_back({"n" + std::to_string(number), 1});
    }
    request.command = {"train"};
    HostFacts facts;
    facts.cpus.resize(1);
    const auto plan = test::plan_on(request, std::vector<HostFacts>(count, facts), "ssh");
    REQUIRE(plan);

    const auto frames = encode_starts(plan->plan);

    REQUIRE(frames);
    REQUIRE(frames->size() == count);
    for (const auto& frame : *frames) {
        wire::FrameReader<wire::ToAgent> reader;
        reader.feed(std::as_bytes(std::span(wire::kMagic)));
        reader.feed(frame);
        const auto message = reader.next();
        REQUIRE(message);
        REQUIRE(*message);
        const auto& start = std::get<wire::Start>(**message);
        CHECK(start.output_window == wire::output_window(count));
        CHECK(start.output_window >= wire::kLeastOutputWindow);
    }
}

TEST_CASE("a plan that is longer than agents take is refused") {
    const auto plan = plan_for(2, std::string(wire::kMaxFrame, 'x'));

    for (const auto& frames : {encode_checks(plan), encode_starts(plan)}) {
        REQUIRE_FALSE(frames);
        CHECK(frames.error().code == Errc::invalid_argument);
        CHECK(frames.error().message ==
              "host node7: the plan of its 2 ranks has 64 MiB, and its agent takes 64; start fewer "
              "ranks there, or leave long arguments and variables in a file");
    }
}

}  // namespace
}  // namespace hvd::launch
