// SPDX-License-Identifier: Apache-2.0
//
// Checks of values that are rounded on the way, in the host's memory and on GPUs: for cases of
// abi_worker.
#pragma once

#include "runtime/include/hvd/hvd.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::test {

/// Where the tensors of a case are.
class Place {
public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    virtual ~Place() = default;

    /// Fills in the fields of a tensor with this content but its shape and type. The memory stays
    /// as long as the place.
    virtual void put(std::span<const std::byte> content, hvd_tensor& tensor) = 0;

    [[nodiscard]] virtual std::vector<std::byte> read(const hvd_tensor& tensor,
                                                      std::size_t bytes) = 0;
};

/// Ends when all checks are made; throws for the first that fails. `world` can add process sets.
void check_rounding(World& world, Place& place);

}  // namespace hvd::test
