// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/device_order.hpp"

namespace hvd::rt {

void DeviceOrder::end() {
    lanes_.pop_front();
    has_begun_ = false;
}

void DeviceOrder::remove(const Lane& lane) {
    if (!lanes_.empty() && lanes_.front() == &lane) {
        has_begun_ = false;
    }
    std::erase(lanes_, &lane);
}

void DeviceOrder::clear() noexcept {
    lanes_.clear();
    has_begun_ = false;
}

}  // namespace hvd::rt
