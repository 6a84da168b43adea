// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/host.hpp"
#include "launcher/remote/starter.hpp"

#include <memory>
#include <vector>

namespace hvd::launch {

/// The hosts of a job, now that all that were waited for are there.
struct Gathered {
    std::vector<PlacedHost> placed{};
    std::unique_ptr<Starter>
        starter{};  // of those that are not here, where they came by themselves
};

}  // namespace hvd::launch
