// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// Closes this descriptor and all with higher numbers, also before Linux 5.9. Async-signal-safe:
/// for a child of fork.
void close_from(int first) noexcept;

}  // namespace hvd
