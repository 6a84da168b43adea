// SPDX-License-Identifier: Apache-2.0
//
// The messages between ranks and the coordinator about a tensor that is new or has changed. In a
// steady step none is sent.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/tensor/device_lists.hpp"
#include "runtime/tensor/operation.hpp"

#include <chrono>
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

/// The announcement of one rank: a tensor, the tensors of a group, its join, or a change of the
/// process sets.
struct Announcement {
    int process_set = 0;
    std::vector<Member> members;  // never empty; those of a group complete as a unit
    std::string failure{};        // why the operation cannot run on this rank; empty: it can
    std::chrono::milliseconds waited{0};  // since it was submitted on this rank
    /// Nothing is announced: the rank has waited with the group's ready bit for long. The id of the
    /// group ends, so that each rank that waits with it says so by name.
    bool asks_for_names = false;
    bool ends_world = false;  // the rank cannot go on, for the reason in `failure`

    friend bool operator==(const Announcement&, const Announcement&) = default;
};

/// The answer to announcements, the same on every rank that reads it.
struct Decision {
    int process_set = 0;
    std::vector<Member> members;  // names, and signatures as a contributing rank announced them
    CacheId id = kNoId;           // by which the ranks call the group from now on
    bool awaits_memory = false;   // not ready before all ranks have set the ready bit of `id`
    bool is_transient = false;    // `id` ends with the first time that it is ready

    /// Of each member tensor. allgather: the first dimension at each place of the set. alltoall:
    /// how many rows place i sends to place j, at i * size + j.
    std::vector<std::vector<std::int64_t>> first_dims;

    /// Of each member tensor on GPUs: the GPU of each member of the set, by place. Empty for one on
    /// hosts, and altogether where all are.
    std::vector<DeviceList> devices{};

    /// Of an error: the rank that has announced each of `members`. Empty: every rank has.
    std::vector<int> announcers{};
    std::optional<Error> error;                   // the ranks disagree, or one cannot
    std::optional<std::uint64_t> fusion_bytes{};  // the coordinator's: all must fuse alike
    std::vector<int> joined;                      // ranks of the set that contribute nothing
    int rank = -1;            // the last to announce this; Kind::join: the rank that has joined
    bool ends_world = false;  // with an error: `rank`, if any, has been waited for too long, or
                              // has failed
    bool ends_join = false;   // Kind::join: all have, and `rank` was the last
    int set_id = -1;  // Kind::add_process_set: of the new set, or of the equal one that exists

    friend bool operator==(const Decision&, const Decision&) = default;
};

/// The kind of the operations that the decision is about.
[[nodiscard]] Kind kind_of(const Decision& decision) noexcept;

/// The name by which the ranks know a group: its member's, or the joined names of all members.
[[nodiscard]] std::string group_name(std::span<const Member> members);

[[nodiscard]] std::vector<std::byte> encode(const Announcement& announcement);
[[nodiscard]] std::vector<std::byte> encode(const Decision& decision);

/// Errors: internal for malformed bytes.
[[nodiscard]] Result<Announcement> decode_announcement(std::span<const std::byte> bytes);
[[nodiscard]] Result<Decision> decode_decision(std::span<const std::byte> bytes);

}  // namespace hvd::rt
