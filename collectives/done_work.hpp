// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

namespace hvd::coll {

/// Of a task that had nothing to wait for.
class DoneWork final : public Work {
public:
    [[nodiscard]] Result<Progress> poll() override { return Progress::done; }
};

}  // namespace hvd::coll
