// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <queue>

namespace hvd::rt {

/// Ids of the process sets that come after the world. As in the original, the id of a removed set
/// is given again, the one that has been free for longest first.
///
/// A rank makes one change at a time (Membership): all have read of a removal before they announce
/// the next addition, and announce nothing of the removed set any more.
class SetIds {
public:
    [[nodiscard]] int take() {
        if (free_.empty()) {
            return next_++;
        }
        const int id = free_.front();
        free_.pop();
        return id;
    }

    /// The set has been removed.
    void give_back(int id) { free_.push(id); }

private:
    std::queue<int> free_;
    int next_ = 1;  // no set has had this id
};

}  // namespace hvd::rt
