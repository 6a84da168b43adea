// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/engine/negotiator.hpp"

namespace hvd::rt {

/// The message by which a rank that cannot go on ends the world on all ranks, so that their errors
/// have its cause and say more than that the rank has left.
///
/// Thread: progress lock.
class OwnFailure {
public:
    /// The referenced objects outlive this one.
    OwnFailure(Channel& channel, Negotiator& negotiator) noexcept
        : channel_(channel), negotiator_(negotiator) {}

    /// Once, before the world is broken here. Sends internal errors only: errors of other codes
    /// have their cause elsewhere, or occur on all ranks.
    void tell(const Error& cause) noexcept;

    /// Whether it was told, and is not known to be in the log yet.
    [[nodiscard]] bool is_on_its_way() const noexcept { return is_on_its_way_; }

    /// While it is: reads the log for nothing else. True if something moved.
    [[nodiscard]] Result<bool> look();

private:
    Channel& channel_;
    Negotiator& negotiator_;
    bool is_on_its_way_ = false;
};

}  // namespace hvd::rt
