// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

namespace hvd::rt {

struct Lane;

/// The order in which batches go to the devices of this process: that of the log, across process
/// sets and devices, one after the other. Otherwise NCCL's communicators could wait for each other
/// for ever.
///
/// Thread: progress lock.
class DeviceOrder {
public:
    /// The next batch for a device is one of this lane.
    void add(const Lane& lane) { lanes_.push_back(&lane); }

    /// Whether the lane's first batch may start.
    [[nodiscard]] bool is_turn_of(const Lane& lane) const noexcept {
        return lanes_.front() == &lane && !has_begun_;
    }

    void begin() noexcept { has_begun_ = true; }

    /// The first batch is in the device's stream, or never will be.
    void end();

    /// The batches of this lane have failed.
    void remove(const Lane& lane);

    void clear() noexcept;

    /// Whether all batches are in their devices' streams.
    [[nodiscard]] bool empty() const noexcept { return lanes_.empty(); }

private:
    std::deque<const Lane*> lanes_;  // one entry for each batch
    bool has_begun_ = false;         // the first of them
};

}  // namespace hvd::rt
