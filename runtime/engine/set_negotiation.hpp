// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/tally.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/engine/agreements.hpp"
#include "runtime/negotiation/messages.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hvd::rt {

/// State that the negotiations of all process sets of a rank share.
struct NegotiationContext {
    Channel& channel;
    TicketTable& tickets;
    Agreements agreements;
    DeviceLists device_lists{};
    std::size_t open = 0;  // groups of all sets that are published, and not agreed

    struct Totals {
        Tally by_name;  // operations
        Tally by_bit;
        Tally names_bytes;
    } totals{};
};

/// Why an operation fails, given the leader of its group.
using DescribeFailure = std::function<Error(const Operation&)>;

/// Fails all members of a group.
void fail_group(TicketTable& tickets, Operation& leader, const Error& cause);

/// Readies a group that has an agreement to run as agreed. Nothing where its outputs are there;
/// else why they cannot be allocated.
[[nodiscard]] std::string prepare_as_agreed(Operation& leader,
                                            const Agreement& agreement,
                                            const coll::ProcessSet& set);

/// Operations in a tensor group.
[[nodiscard]] std::size_t member_count(const Operation& leader) noexcept;

/// The operations of one process set that this rank is in, from their submission until the members
/// have agreed on them.
///
/// Thread: progress lock.
class SetNegotiation {
public:
    /// The referenced objects outlive this one.
    SetNegotiation(ProcessSetEntry& entry, NegotiationContext& context) noexcept
        : entry_(entry), context_(context) {}

    [[nodiscard]] const coll::ProcessSet& set() const noexcept { return entry_.set; }

    /// Keeps a group until `publish_held`.
    void hold(Operation& leader) { held_.push_back(&leader); }
    [[nodiscard]] bool has_held() const noexcept { return !held_.empty(); }
    void publish_held();

    /// Announces groups by name, or sets the ready bits of those that have been agreed before.
    void publish(std::span<Operation* const> leaders);

    /// Groups that are published, and not agreed.
    [[nodiscard]] std::size_t open() const noexcept { return open_; }

    /// So many groups are proposed instead; nothing else is open meanwhile. 0: no longer.
    void set_proposed(std::size_t groups) noexcept { set_open(groups); }

    /// The groups that share names with the decision fail, as this rank has them.
    void on_error(const Decision& decision);
    /// Errors: internal for a decision that does not fit.
    [[nodiscard]] Status on_collective(const Decision& decision);
    /// Completes this rank's request for a change of membership, if it has one.
    void on_membership(const Decision& decision);
    /// Ends a chain of decisions: what came together is ready together.
    void end_decisions(std::vector<Operation*>& ready);

    /// Every member has set the ready bit of the group's id.
    void on_ready(Operation& leader, std::vector<Operation*>& ready) {
        set_open(open_ - 1);
        ready.push_back(&leader);
    }
    /// The id of a group that waits with its ready bit is no longer valid.
    void on_invalidated(Operation& leader) { announce(leader, {}); }

    /// Fails all that is not agreed.
    void fail_all(const DescribeFailure& describe);

private:
    [[nodiscard]] bool is_world() const noexcept { return entry_.set.id == 0; }
    void set_open(std::size_t groups) noexcept {
        context_.open += groups - open_;
        open_ = groups;
    }
    void set_ready(std::span<Operation* const> leaders);
    void announce(Operation& leader, std::string failure);
    void withdraw(Operation& leader);
    [[nodiscard]] Operation* find_announced(const std::string& name) const;
    [[nodiscard]] Status take_terms(Operation& leader, const Decision& decision);
    [[nodiscard]] Result<Operation*> make_neutral(const Decision& decision);

    ProcessSetEntry& entry_;
    NegotiationContext& context_;
    std::vector<Operation*> held_;  // not published yet; leaders
    /// By the name of each member tensor; leaders.
    std::unordered_map<std::string_view, Operation*> announced_;
    std::vector<Operation*> decided_;    // together, with others that are to follow
    std::vector<Operation*> allocated_;  // likewise, and owe their ready bit
    std::size_t open_ = 0;
};

}  // namespace hvd::rt
