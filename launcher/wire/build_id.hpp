// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hvd::launch::wire {

/// The version of the product and a hash of the sources that define the protocol: two programs with
/// the same build id understand each other's frames.
[[nodiscard]] std::string_view build_id() noexcept;

/// The version of the product alone: "0.29.0".
[[nodiscard]] std::string_view product_version() noexcept;

}  // namespace hvd::launch::wire
