// SPDX-License-Identifier: Apache-2.0
//
// The inputs and the expected outputs of a plan's operations.
#pragma once

#include "runtime/tensor/signature.hpp"
#include "tests/simulation/engine/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::sim {

/// The signature of one tensor of the item, as the rank announces it.
[[nodiscard]] rt::Signature signature_of(const Plan& plan,
                                         const Item& item,
                                         std::size_t tensor,
                                         int rank);

/// The rank's input.
[[nodiscard]] std::vector<std::int64_t> input_of(const Plan& plan,
                                                 const Item& item,
                                                 std::size_t tensor,
                                                 int rank);

/// Whether it must fail, though nothing is disturbed.
[[nodiscard]] bool must_fail(const Plan& plan, const Item& item, std::size_t phase);

/// The rank's expected result; doubles by their value.
[[nodiscard]] std::vector<double> output_of(const Plan& plan,
                                            const Item& item,
                                            std::size_t tensor,
                                            std::size_t phase,
                                            int rank);

}  // namespace hvd::sim
