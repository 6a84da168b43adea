// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <set>

namespace hvd::rt {

using coll::DeviceList;

/// One object for each list, so that lists are compared by their addresses.
///
/// Thread: progress lock.
class DeviceLists {
public:
    /// nullptr for the empty list: the memory of the host. Valid as long as this object.
    [[nodiscard]] const DeviceList* find(const DeviceList& list) {
        return list.empty() ? nullptr : &*lists_.insert(list).first;
    }

private:
    std::set<DeviceList> lists_;
};

}  // namespace hvd::rt
