// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/nccl/library.hpp"

#include <string_view>

namespace hvd::coll::nccl {

/// Throws Exception where `result` is a failure: "`what`: NCCL's words". A call of a communicator
/// that does not block may be in progress, which is none.
void check(const Library& library, ncclResult_t result, std::string_view what);

/// The words for a failure.
[[nodiscard]] Error error_of(const Library& library, ncclResult_t result, std::string_view what);

}  // namespace hvd::coll::nccl
