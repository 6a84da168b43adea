// SPDX-License-Identifier: Apache-2.0
//
// What ranks tell the coordinator about a tensor that is new or has changed, and what it answers.
// In a steady step neither is sent.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// One tensor of an announcement.
struct Member {
    std::string name;
    Signature signature;

    friend bool operator==(const Member&, const Member&) = default;
};

/// What one rank says about one unit: a tensor, or the tensors of a group.
struct Announcement {
    std::vector<Member> members;  // never empty

    friend bool operator==(const Announcement&, const Announcement&) = default;
};

/// All ranks have announced `unit`, and this is what comes of it, the same on every rank.
struct Decision {
    std::string unit;
    std::uint32_t id = kNoId;  // from now on the unit's short name; kNoId: not cached
    std::vector<std::vector<std::int64_t>> rows;  // of each member: allgather's rows of each rank
    std::optional<Error> error;                   // the ranks disagree
    std::optional<std::uint64_t> fusion_bytes{};  // the coordinator's: all must fuse alike

    friend bool operator==(const Decision&, const Decision&) = default;
};

/// By what a unit is known: its member's name, or all of them.
[[nodiscard]] std::string unit_name(const Announcement& announcement);

[[nodiscard]] std::vector<std::byte> encode(const Announcement& announcement);
[[nodiscard]] std::vector<std::byte> encode(const Decision& decision);

/// Errors: internal for malformed bytes.
[[nodiscard]] Result<Announcement> decode_announcement(std::span<const std::byte> bytes);
[[nodiscard]] Result<Decision> decode_decision(std::span<const std::byte> bytes);

}  // namespace hvd::rt
