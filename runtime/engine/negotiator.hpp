// SPDX-License-Identifier: Apache-2.0
//
// Between the callers' operations and the channel: what is said by name, what by short name, and
// what has become ready.
#pragma once

#include "collectives/base/tally.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/negotiation/coordinator.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hvd::rt {

/// Thread: baton.
class Negotiator {
public:
    struct Totals {
        Tally by_name;  // operations
        Tally by_bit;
        Tally names_bytes;
    };

    /// Whether a caller waits for exactly what it submits.
    enum class Urgency { background, awaited };

    /// `coordinator` on the rank that decides, nothing elsewhere; its `fusion_bytes` count for all.
    Negotiator(Channel& channel,
               TicketTable& tickets,
               std::optional<Coordinator> coordinator,
               std::optional<std::size_t> fusion_bytes);

    /// Forgets what was agreed. Nothing is open any more.
    ~Negotiator();
    Negotiator(const Negotiator&) = delete;
    Negotiator& operator=(const Negotiator&) = delete;

    /// Takes new units by their heads.
    void submit(std::span<Operation* const> heads, Urgency urgency);

    /// Does what can be done now and appends what has become ready, by its heads, to `ready`.
    /// Returns at the end of each batch, so that a batch is one call. True if something moved.
    /// Errors: the channel's; the world is broken then.
    [[nodiscard]] Result<bool> step(std::vector<Operation*>& ready);

    /// Whether an operation is on its way to being agreed.
    [[nodiscard]] bool has_open() const noexcept { return open_ != 0 || !held_.empty(); }

    /// What the ranks fuse up to: nothing, that is what suits the backend. Agreed before anything
    /// is ready.
    [[nodiscard]] std::optional<std::size_t> fusion_bytes() const noexcept { return fusion_bytes_; }

    /// Fails what is not agreed.
    void fail_open(const Error& cause);

    [[nodiscard]] const Totals& totals() const noexcept { return totals_; }

private:
    /// A unit with a short name.
    struct Agreement {
        Name* unit = nullptr;         // nullptr: the id is not in use
        Operation* marked = nullptr;  // this rank's, until it is ready
        std::vector<Signature> signatures;
        std::vector<std::vector<std::int64_t>> rows;
    };

    [[nodiscard]] bool is_cached(const Operation& head) const;
    void say(std::span<Operation* const> heads);
    void announce(Operation& head);
    void forget(Name& unit);
    void accept(Operation& head, std::vector<Operation*>& ready);
    [[nodiscard]] Result<bool> settle_proposal(std::vector<Operation*>& ready);
    [[nodiscard]] Result<bool> coordinate();
    [[nodiscard]] Status on(event::Decided& decided, std::vector<Operation*>& ready);
    void on(const event::Invalidated& invalidated);
    void on(const event::Ready& batch, std::vector<Operation*>& ready);
    void learn(const Decision& decision, Operation& head);
    void fail(Operation& head, const Error& cause);

    Channel& channel_;
    TicketTable& tickets_;
    std::optional<Coordinator> coordinator_;
    std::optional<std::size_t> fusion_bytes_;
    std::vector<Agreement> agreements_;                           // by id
    std::unordered_map<std::string_view, Operation*> announced_;  // by unit; heads
    std::size_t open_ = 0;              // units announced, marked or proposed
    std::vector<Operation*> proposed_;  // ascending by id, while a proposal waits
    std::vector<Operation*> held_;      // submitted meanwhile
    std::vector<std::uint32_t> ids_;    // scratch
    std::vector<Operation*> decided_;   // decisions whose batch is not complete
    Totals totals_;
};

}  // namespace hvd::rt
