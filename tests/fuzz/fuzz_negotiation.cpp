// SPDX-License-Identifier: Apache-2.0
//
// Negotiation messages: whatever the bytes are, decoding ends in a value or an error, a decoded
// value survives encoding, and the coordinator takes every announcement of every rank, whether
// others have joined or grouped the same tensors in another way.
#include "runtime/negotiation/coordinator.hpp"
#include "runtime/negotiation/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <variant>

using hvd::rt::Announcement;
using hvd::rt::Coordinator;
using hvd::rt::Kind;

namespace {

/// Every rank must be able to read a decision.
void check(const hvd::Result<std::vector<hvd::rt::LogEntry>>& entries) {
    if (!entries) {
        return;
    }
    for (const auto& entry : *entries) {
        const auto* decision = std::get_if<hvd::rt::Decision>(&entry);
        if (decision != nullptr && !hvd::rt::decode_decision(hvd::rt::encode(*decision))) {
            std::abort();
        }
    }
}

/// Both ranks announce the same, again and again: something must come of it.
void agree(const Announcement& announcement) {
    Coordinator coordinator(2, {.capacity = 2, .ids = 8, .quarantine = 2});
    for (int round = 0; round < 4; ++round) {
        const auto first = coordinator.announce(0, announcement);
        const auto second = coordinator.announce(1, announcement);
        check(first);
        check(second);
        if (announcement.process_set == 0 && (!second || second->empty())) {
            std::abort();
        }
    }
}

/// Ranks that announce different things, and one that joins.
void disagree(const Announcement& announcement) {
    Coordinator coordinator(3, {.capacity = 1, .ids = 3, .quarantine = 1});
    auto other = announcement;
    std::ranges::reverse(other.members);
    auto single = announcement;
    single.members.resize(1);
    check(coordinator.announce(0, announcement));
    check(coordinator.announce(1, other));
    check(coordinator.announce(2, single));
    check(coordinator.announce(
        2, {.process_set = 0,
            .members = {{.name = "join",
                         .signature = {.kind = Kind::join,
                                       .device = {.kind = hvd::coll::Device::Kind::cuda,
                                                  .index = 1}}}},
            .failure = {}}));
    check(coordinator.announce(1, single));
    check(coordinator.announce(0, other));
    (void)coordinator.waiting();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    if (const auto decision = hvd::rt::decode_decision(bytes)) {
        if (!hvd::rt::decode_decision(hvd::rt::encode(*decision))) {
            std::abort();
        }
    }
    const auto announcement = hvd::rt::decode_announcement(bytes);
    if (!announcement) {
        return 0;
    }
    if (hvd::rt::encode(*announcement).size() != size) {
        std::abort();
    }
    agree(*announcement);
    disagree(*announcement);
    return 0;
}
