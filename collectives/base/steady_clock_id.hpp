// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// Names the steady clock that this process reads: equal in two processes where their times can be
/// compared as they are. The boot of the kernel and, where the kernel has them, the time namespace.
/// Empty where /proc does not tell the boot.
[[nodiscard]] std::string steady_clock_id();

}  // namespace hvd
