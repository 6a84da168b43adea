// SPDX-License-Identifier: Apache-2.0
//
// The credit that agents have for output: a share of one budget, and never less than the guaranteed
// one.
#include "launcher/supervise/output_flow.hpp"

#include "launcher/net/io_thread.hpp"
#include "launcher/net/simulated_time.hpp"
#include "launcher/output/writer_thread.hpp"
#include "launcher/wire/frames.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hvd::launch {
namespace {

constexpr auto kBuildId = "build";

/// An agent that says who it is, and adds up the credit that it gets.
class CreditedAgent final : public AgentChannel {
public:
    CreditedAgent(IoThread& io, std::uint64_t& credit) : io_(io), credit_(credit) {}

    void open(Handlers handlers) override {
        io_.post([handlers = std::move(handlers)] {
            handlers.on_bytes(std::as_bytes(std::span(wire::kMagic)));
            handlers.on_bytes(wire::encode(wire::Hello{.build_id = kBuildId, .pid = 1}));
            handlers.on_bytes(wire::encode(wire::Facts{}));
        });
    }
    void send(std::vector<std::byte> bytes) override {
        reader_.feed(bytes);
        for (auto next = reader_.next(); next.value(); next = reader_.next()) {
            if (const auto* credit = std::get_if<wire::Credit>(&*next.value())) {
                credit_ += credit->bytes;
            }
        }
    }
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override {}
    [[nodiscard]] bool is_on_this_machine() const noexcept override { return true; }

private:
    IoThread& io_;
    std::uint64_t& credit_;
    wire::FrameReader<wire::ToAgent> reader_;
};

class CreditedAgents final : public Starter {
public:
    CreditedAgents(IoThread& io, std::size_t count) : credits(count), io_(io) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "credited"; }
    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& /*host*/) override {
        return std::unique_ptr<AgentChannel>(new CreditedAgent(io_, credits[next_++]));
    }

    std::vector<std::uint64_t> credits;

private:
    IoThread& io_;
    std::size_t next_ = 0;
};

/// A console that takes everything at once.
class Nowhere final : public Sink {
public:
    void take(const Chunk& /*chunk*/) override {}
    void flush() override {}
};

}  // namespace

TEST_CASE("the share of an agent is that of one budget, and never less than the guaranteed one") {
    const auto [agents, share] = GENERATE(table<std::size_t, std::uint64_t>({
        {0, wire::kOutputWindow},
        {1, wire::kOutputWindow},
        {4, wire::kOutputWindow},
        {5, wire::kOutputBudget / 5},
        {64, wire::kOutputBudget / 64},
        {256, wire::kLeastOutputWindow},
        {300, wire::kLeastOutputWindow},
        {100'000, wire::kLeastOutputWindow},
    }));
    CAPTURE(agents);

    CHECK(wire::output_window(agents) == share);
    CHECK(share * std::min<std::size_t>(agents, 256) <= wire::kOutputBudget);
}

TEST_CASE("a writer reports its progress before the agent with the least share runs out") {
    CHECK(2 * WriterThread::kProgressStep <= wire::kLeastOutputWindow);
}

TEST_CASE("an agent whose output is written has its share again, with few hosts and with 300") {
    const auto count = GENERATE(values<std::size_t>({1, 3, 64, 300}));
    CAPTURE(count);
    SimulatedTime time;
    IoThread io(time);
    CreditedAgents agents(io, count);
    AgentFleet fleet(io, kBuildId, std::chrono::milliseconds(0));
    const std::vector<Host> hosts(count, Host{.name = "h", .slots = {}, .user = {}, .port = {}});
    const auto facts = fleet.link(agents, hosts, {.deadline = io.in(std::chrono::seconds(10))});
    REQUIRE(std::ranges::all_of(facts, [](const auto& each) { return each.has_value(); }));
    OutputOptions options;
    const auto flow =
        OutputFlow::create(io, fleet, options,
                           {.ranks = static_cast<int>(count),
                            .console = [] { return std::unique_ptr<Sink>(new Nowhere); }},
                           {.on_progress = [] {}, .on_console_closed = [] {}});
    REQUIRE(flow);
    const auto share = wire::output_window(count);
    constexpr std::size_t kChunkBytes = 4096;

    // The host in the middle writes without a pause, the others now and then.
    std::vector<std::uint64_t> written(count);
    for (std::size_t round = 0; round < 4 * share / kChunkBytes; ++round) {
        const auto host = round % 8 == 0 ? round / 8 % count : count / 2;
        REQUIRE(written[host] + kChunkBytes <= share + agents.credits[host]);
        (*flow)->submit(host, {.rank = static_cast<int>(host),
                               .bytes = std::vector<std::byte>(kChunkBytes, std::byte{'x'})});
        written[host] += kChunkBytes;
    }

    for (std::size_t host = 0; host < count; ++host) {
        CAPTURE(host);
        const auto left = share + agents.credits[host] - written[host];
        CHECK(left > share / 4 * 3);
        CHECK(left <= share);
    }
}

}  // namespace hvd::launch
