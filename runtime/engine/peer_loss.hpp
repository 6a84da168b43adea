// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"

#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace hvd::rt {

/// Tells the launcher which peer this rank misses: one that is gone while an operation needs it. A
/// peer that nobody needs any more is not reported.
///
/// Thread: progress lock.
class PeerLoss {
public:
    using Tell = std::function<void(int peer, std::string_view why)>;

    /// `tell` may be empty.
    explicit PeerLoss(Tell tell) : tell_(std::move(tell)) {}

    /// The peer is gone; told once an operation needs it.
    void lose(const Channel::PeerFailure& failure) { lost_ = failure; }

    /// An operation needs the peers that are gone.
    void miss() {
        if (lost_ && tell_) {
            tell_(lost_->peer, lost_->error.message);
        }
        lost_.reset();
    }

    /// An operation needs a rank that has left in order. Told once in a row.
    void miss_departed(int rank, std::string_view why) {
        if (tell_ && reported_ != rank) {
            reported_ = rank;
            tell_(rank, why);
        }
    }

private:
    Tell tell_;
    std::optional<Channel::PeerFailure> lost_;  // until it is missed
    std::optional<int> reported_;               // the departed rank that was told last
};

}  // namespace hvd::rt
