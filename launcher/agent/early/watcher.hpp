// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::launch::early {

/// As agent::die_with_parent: returns 0 or a negative errno.
[[nodiscard]] long die_with_parent();

}  // namespace hvd::launch::early
