// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_measurement.hpp"

#include "collectives/base/random_id.hpp"
#include "launcher/net/io_thread.hpp"

#include <chrono>
#include <span>
#include <utility>
#include <variant>

namespace hvd::launch {
namespace {

/// More than what the two agents give each other.
constexpr auto kPairLimit = std::chrono::seconds(15);

constexpr int kIdsOfASecret = 2;  // each of 32 characters

/// Known to nobody but us and the two agents.
Result<std::vector<std::byte>> make_secret() {
    std::string text;
    for (int part = 0; part < kIdsOfASecret; ++part) {
        HVD_TRY(const auto id, random_id());
        text += id;
    }
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector(bytes.begin(), bytes.end());
}

}  // namespace

LinkMeasurement::LinkMeasurement(IoThread& io,
                                 AgentFleet& fleet,
                                 Diagnosis& diagnosis,
                                 std::vector<std::size_t> hosts,
                                 LinkOptions options)
    : io_(io),
      fleet_(fleet),
      diagnosis_(diagnosis),
      hosts_(std::move(hosts)),
      options_(std::move(options)),
      schedule_(choose_pairs(hosts_.size()), hosts_.size()),
      limit_(io) {
    const auto pairs = choose_pairs(hosts_.size());
    diagnosis_.possible_links = count_pairs(hosts_.size());
    for (const auto& [a, b] : pairs) {
        diagnosis_.links.push_back({.from = fleet_.name(hosts_[a]), .to = fleet_.name(hosts_[b])});
    }
    is_open_.assign(pairs.size(), false);
    secrets_.resize(pairs.size());
}

void LinkMeasurement::run() {
    begin_pairs();
    if (!schedule_.is_over()) {
        expect_progress();
        io_.run();
        limit_.cancel();
    }
}

std::size_t LinkMeasurement::listener_of(std::size_t pair) const {
    return hosts_[schedule_.pair(pair).first];
}

std::size_t LinkMeasurement::caller_of(std::size_t pair) const {
    return hosts_[schedule_.pair(pair).second];
}

void LinkMeasurement::begin_pairs() {
    for (auto begun = schedule_.begin(); !begun.empty(); begun = schedule_.begin()) {
        for (const auto pair : begun) {
            is_open_[pair] = true;
            auto secret = make_secret();
            if (!secret || fleet_.has_ended(listener_of(pair)) ||
                fleet_.has_ended(caller_of(pair))) {
                end_pair(pair, secret ? "one of them was lost" : secret.error().message);
                continue;
            }
            secrets_[pair] = *secret;
            fleet_.send(listener_of(pair), wire::OpenLink{.id = static_cast<std::uint32_t>(pair),
                                                          .secret = *std::move(secret),
                                                          .interfaces = options_.interfaces,
                                                          .ports = options_.ports});
        }
    }
}

bool LinkMeasurement::is_under_way(std::uint32_t pair) const {
    return pair < is_open_.size() && is_open_[pair];
}

void LinkMeasurement::on_message(std::size_t host, wire::FromAgent message) {
    std::visit([this, host](auto& event) { this->on(host, event); }, message);
}

void LinkMeasurement::on(std::size_t host, wire::LinkOpen& link) {
    if (!is_under_way(link.id) || listener_of(link.id) != host) {
        return;
    }
    if (!link.error.empty()) {
        end_pair(link.id, fleet_.name(host) + " cannot listen: " + link.error);
        begin_pairs();
        return;
    }
    expect_progress();
    fleet_.send(caller_of(link.id), wire::MeasureLink{.id = link.id,
                                                      .secret = secrets_[link.id],
                                                      .interfaces = options_.interfaces,
                                                      .record = std::move(link.record)});
}

void LinkMeasurement::on(std::size_t host, wire::LinkMeasured& link) {
    if (!is_under_way(link.id) || caller_of(link.id) != host) {
        return;
    }
    auto& health = diagnosis_.links[link.id];
    health.address = std::move(link.address);
    health.round_trip_ns = link.round_trip_ns;
    health.bytes_per_second = link.bytes_per_second;
    fleet_.send(listener_of(link.id), wire::CloseLink{.id = link.id});
    end_pair(link.id, link.error.empty()
                          ? ""
                          : health.to + " cannot reach " + health.from + ": " + link.error +
                                "; look at the firewall between them, or choose "
                                "with --network-interfaces and --port-range");
    begin_pairs();
}

void LinkMeasurement::on_end(std::size_t host) {
    for (std::size_t pair = 0; pair < is_open_.size(); ++pair) {
        if (is_open_[pair] && (listener_of(pair) == host || caller_of(pair) == host)) {
            end_pair(pair, fleet_.name(host) + " was lost");
        }
    }
    begin_pairs();
}

/// `problem`: empty if there is none.
void LinkMeasurement::end_pair(std::size_t pair, const std::string& problem) {
    is_open_[pair] = false;
    diagnosis_.links[pair].problem = problem;
    schedule_.end(pair);
    expect_progress();
    if (schedule_.is_over()) {
        io_.stop();
    }
}

void LinkMeasurement::expect_progress() {
    limit_.set(io_.in(kPairLimit), [this] { fail_stalled_pairs(); });
}

void LinkMeasurement::fail_stalled_pairs() {
    for (std::size_t pair = 0; pair < is_open_.size(); ++pair) {
        if (is_open_[pair]) {
            end_pair(pair, "the agents did not answer within 15 s");
        }
    }
    begin_pairs();
}

}  // namespace hvd::launch
