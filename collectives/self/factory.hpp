// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <memory>

namespace hvd::coll::self {

/// Collectives of a set of one rank: results are (scaled) copies of the inputs.
[[nodiscard]] std::unique_ptr<Backend> create();

}  // namespace hvd::coll::self
