// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"
#include "runtime/engine/set_negotiation.hpp"
#include "runtime/negotiation/stall.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::rt {

/// This rank's proposal in a round of the world (see Channel): tensor groups that a caller waits
/// for and that all ranks have agreed on before.
///
/// Thread: progress lock.
class WorldProposal {
public:
    /// The referenced objects outlive this one. `carries_payloads`: small inputs travel along.
    WorldProposal(NegotiationContext& context, SetNegotiation& world, bool carries_payloads);

    /// Whether these groups, by their leaders, can be proposed now if nothing else of the world is
    /// under way.
    [[nodiscard]] bool suits(std::span<Operation* const> leaders) const;

    /// False where it is already known to be in vain; then nothing has happened.
    [[nodiscard]] bool offer(std::span<Operation* const> leaders);

    [[nodiscard]] bool is_waiting() const noexcept { return !proposed_.empty(); }

    /// Ends the proposal if its outcome is known: appends accepted groups to `ready`, publishes
    /// refused ones by their ready bits. True if it has ended.
    [[nodiscard]] bool settle(std::vector<Operation*>& ready);

    /// Gives the groups up, for a caller that fails them and all else of the world.
    [[nodiscard]] std::vector<Operation*> take();

    /// Where the inputs of all ranks to the group that was accepted last are, as LocalResult reads
    /// them, if they have travelled along: else empty. Valid until this rank publishes anything.
    [[nodiscard]] std::span<const std::byte* const> inputs() const noexcept { return inputs_; }
    void forget_inputs() noexcept { inputs_ = {}; }

    /// The proposal waits from now on, unless it has waited before.
    void note_time(Waiting::TimePoint now);

    /// Adds the groups to `list` while ranks are known that have published nothing.
    void list_waiting(std::vector<Waiting>& list) const;

private:
    void note_wait();
    void find_inputs();

    NegotiationContext& context_;
    SetNegotiation& world_;
    std::size_t payload_limit_;
    std::vector<Operation*> proposed_;  // ascending by id
    std::vector<Operation*> settled_;   // scratch: those that were proposed last
    std::vector<CacheId> ids_;          // scratch
    bool has_payload_ = false;          // what is proposed
    std::span<const std::byte* const> inputs_;
    std::vector<const std::byte*> parts_;  // memory for inputs_
};

}  // namespace hvd::rt
