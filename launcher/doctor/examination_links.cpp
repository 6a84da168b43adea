// SPDX-License-Identifier: Apache-2.0
//
// How the doctor has the agents measure the links between their hosts.
#include "collectives/base/random_id.hpp"
#include "launcher/doctor/examination.hpp"

#include <algorithm>
#include <span>
#include <utility>

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

void Examination::measure(const std::vector<std::size_t>& hosts, const LinkWishes& wishes) {
    wishes_ = wishes;
    link_hosts_ = hosts;
    auto pairs = choose_pairs(hosts.size());
    diagnosis_.possible_links = count_pairs(hosts.size());
    for (const auto& [a, b] : pairs) {
        diagnosis_.links.push_back(
            {.from = diagnosis_.hosts[hosts[a]].host, .to = diagnosis_.hosts[hosts[b]].host});
    }
    pair_is_open_.assign(pairs.size(), false);
    secrets_.resize(pairs.size());
    schedule_.emplace(std::move(pairs), hosts.size());
    begin_pairs();
    if (!schedule_->is_over() && stop_signal_ == 0) {
        expect_progress();
        io_.run();
        limit_.cancel();
    }
    schedule_.reset();
}

void Examination::begin_pairs() {
    for (auto begun = schedule_->begin(); !begun.empty(); begun = schedule_->begin()) {
        for (const auto pair : begun) {
            pair_is_open_[pair] = true;
            const auto& [a, b] = schedule_->pair(pair);
            auto secret = make_secret();
            if (!secret || patients_[link_hosts_[a]].is_lost || patients_[link_hosts_[b]].is_lost) {
                end_pair(pair, secret ? "one of them was lost" : secret.error().message);
                continue;
            }
            secrets_[pair] = *secret;
            agents_.send(link_hosts_[a], wire::OpenLink{.id = static_cast<std::uint32_t>(pair),
                                                        .secret = *std::move(secret),
                                                        .interfaces = wishes_.interfaces,
                                                        .ports = wishes_.ports});
        }
    }
}

bool Examination::is_under_way(std::uint32_t pair) const {
    return schedule_ && pair < pair_is_open_.size() && pair_is_open_[pair];
}

void Examination::on(std::size_t host, wire::LinkOpen& link) {
    if (!is_under_way(link.id) || link_hosts_[schedule_->pair(link.id).first] != host) {
        return;
    }
    if (!link.error.empty()) {
        end_pair(link.id, diagnosis_.hosts[host].host + " cannot listen: " + link.error);
        begin_pairs();
        return;
    }
    expect_progress();
    agents_.send(link_hosts_[schedule_->pair(link.id).second],
                 wire::MeasureLink{.id = link.id,
                                   .secret = secrets_[link.id],
                                   .interfaces = wishes_.interfaces,
                                   .record = std::move(link.record)});
}

void Examination::on(std::size_t host, wire::LinkMeasured& link) {
    if (!is_under_way(link.id) || link_hosts_[schedule_->pair(link.id).second] != host) {
        return;
    }
    auto& health = diagnosis_.links[link.id];
    health.address = std::move(link.address);
    health.round_trip_ns = link.round_trip_ns;
    health.bytes_per_second = link.bytes_per_second;
    agents_.send(link_hosts_[schedule_->pair(link.id).first], wire::CloseLink{.id = link.id});
    const auto& ends = diagnosis_.links[link.id];
    end_pair(link.id, link.error.empty()
                          ? ""
                          : ends.to + " cannot reach " + ends.from + ": " + link.error +
                                "; look at the firewall between them, or choose "
                                "with --network-interfaces and --port-range");
    begin_pairs();
}

/// `problem`: empty if there is none.
void Examination::end_pair(std::size_t pair, const std::string& problem) {
    pair_is_open_[pair] = false;
    diagnosis_.links[pair].problem = problem;
    schedule_->end(pair);
    expect_progress();
    end_wait_if_done();
}

void Examination::expect_progress() {
    limit_.set(io_.in(kPairLimit), [this] { fail_stalled_pairs(); });
}

void Examination::fail_stalled_pairs() {
    for (std::size_t pair = 0; pair < pair_is_open_.size(); ++pair) {
        if (pair_is_open_[pair]) {
            end_pair(pair, "the agents did not answer within 15 s");
        }
    }
    begin_pairs();
}

}  // namespace hvd::launch
