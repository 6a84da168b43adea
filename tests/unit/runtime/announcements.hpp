// SPDX-License-Identifier: Apache-2.0
//
// Announcements in few words, and what a coordinator makes of them.
#pragma once

#include "runtime/negotiation/coordinator.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hvd::test {

inline rt::Announcement tensor(const std::string& name,
                               std::int64_t elements = 4,
                               int process_set = 0) {
    rt::Announcement announcement{
        .process_set = process_set, .members = {{.name = name, .signature = {}}}, .failure = {}};
    announcement.members.front().signature.shape = {elements};
    return announcement;
}

inline rt::Announcement of(coll::Op op, const std::string& name, std::int64_t rows = 4) {
    auto announcement = tensor(name, rows);
    announcement.members.front().signature.op = op;
    return announcement;
}

/// On a GPU of the rank that announces it.
inline rt::Announcement on_gpu(int index, const std::string& name = "a") {
    auto announcement = tensor(name);
    announcement.members.front().signature.device = {.kind = coll::Device::Kind::cuda,
                                                     .index = index};
    return announcement;
}

inline rt::Announcement group(const std::vector<std::string>& names, int process_set = 0) {
    auto announcement = tensor(names.front(), 4, process_set);
    announcement.members.clear();
    for (const auto& name : names) {
        announcement.members.push_back(tensor(name).members.front());
    }
    return announcement;
}

inline rt::Announcement join() {
    return {.process_set = 0,
            .members = {{.name = "join", .signature = {.kind = rt::Kind::join}}},
            .failure = {}};
}

/// Of a rank that takes part on a GPU in what the others do.
inline rt::Announcement join_on(int index) {
    auto announcement = join();
    announcement.members.front().signature.device = {.kind = coll::Device::Kind::cuda,
                                                     .index = index};
    return announcement;
}

inline rt::Announcement addition(std::vector<std::int64_t> ranks) {
    auto announcement = tensor("add");
    announcement.members.front().signature = {.kind = rt::Kind::add_process_set};
    announcement.members.front().signature.splits = std::move(ranks);
    return announcement;
}

inline rt::Announcement removal(int id) {
    auto announcement = tensor("remove." + std::to_string(id));
    announcement.members.front().signature = {.kind = rt::Kind::remove_process_set};
    announcement.members.front().signature.root = id;
    return announcement;
}

inline std::vector<rt::LogEntry> announce(rt::Coordinator& coordinator,
                                          int rank,
                                          rt::Announcement announcement) {
    auto entries = coordinator.announce(rank, std::move(announcement));
    REQUIRE(entries);
    return *std::move(entries);
}

/// The ranks announce the same: what comes of the last one.
inline std::vector<rt::LogEntry> agree(rt::Coordinator& coordinator,
                                       const rt::Announcement& announcement,
                                       const std::vector<int>& ranks = {0, 1}) {
    std::vector<rt::LogEntry> entries;
    for (const int rank : ranks) {
        entries = announce(coordinator, rank, announcement);
    }
    return entries;
}

/// The last of the entries.
inline rt::Decision decision_of(const std::vector<rt::LogEntry>& entries) {
    REQUIRE_FALSE(entries.empty());
    REQUIRE(std::holds_alternative<rt::Decision>(entries.back()));
    return std::get<rt::Decision>(entries.back());
}

/// The id that the coordinator gives a set of these ranks.
inline int add_set(rt::Coordinator& coordinator,
                   const std::vector<std::int64_t>& ranks,
                   const std::vector<int>& world) {
    const auto decision = decision_of(agree(coordinator, addition(ranks), world));
    REQUIRE_FALSE(decision.error);
    return decision.set_id;
}

inline constexpr rt::CacheLimits kRoomy{.capacity = 100, .ids = 1000, .quarantine = 10};

}  // namespace hvd::test
