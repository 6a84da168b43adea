// SPDX-License-Identifier: Apache-2.0
//
// The parts of a decision that come from the announcements of all ranks.
#pragma once

#include "runtime/negotiation/readiness.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// The first dimensions that the ranks have announced, by member; see Decision.
[[nodiscard]] std::vector<std::vector<std::int64_t>> first_dims_of(const AnnouncedGroup& group);

/// The GPUs of `ranks`, the members of the set; see Decision. -1 for a rank that has joined and is
/// not in `joined_gpus`.
[[nodiscard]] std::vector<DeviceList> devices_of(const AnnouncedGroup& group,
                                                 std::span<const int> ranks,
                                                 const std::map<int, std::int32_t>& joined_gpus);

/// Why a decision with these devices cannot be: ranks of the set that have joined without a GPU
/// take no part in what is on GPUs.
[[nodiscard]] std::optional<Error> refusal_without_gpu(const Decision& decision,
                                                       std::span<const int> ranks);

}  // namespace hvd::rt
