// SPDX-License-Identifier: Apache-2.0
//
// The way of a device's tensors through the memory of the host.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/staging.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// Lets the engine see operations on tensors of devices as ones on the host: they come to the inbox
/// once their inputs are there, and end once their results are back.
class StagedCopies final : public ResultCarrier {
public:
    /// `staging` may be nullptr; what is referenced outlives this object.
    StagedCopies(coll::Staging* staging, Inbox<Operation*>& inbox) noexcept
        : staging_(staging), inbox_(inbox) {}

    /// Gives operations on devices their memory of the host; does nothing for others. Errors:
    /// unsupported, internal, where the device cannot be used. Thread: any.
    [[nodiscard]] Status prepare(std::span<Operation* const> operations);

    /// Sends the inputs on their way, and then the leaders to the inbox; false where none of them
    /// is on a device, and nothing is done. Thread: any.
    [[nodiscard]] bool send(std::span<Operation* const> leaders);

    /// Thread: progress lock.
    [[nodiscard]] bool carry(Operation& operation) override;

    /// Why an input of the group did not come to the host; nullptr where all did. Thread: progress
    /// lock.
    [[nodiscard]] static const Error* failure_of(const Operation& leader);

    /// Returns when nothing is on its way. Thread: any.
    void drain() noexcept;

    /// Gives memory that is kept for later copies back.
    void trim() noexcept;

private:
    void copy_inputs(std::span<Operation* const> staged, std::span<Operation* const> leaders);
    void copy_result(Operation& operation);

    coll::Staging* staging_;
    Inbox<Operation*>& inbox_;
};

}  // namespace hvd::rt
