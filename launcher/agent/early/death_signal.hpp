// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::launch::early {

/// As those of launcher/agent/die_with_parent; an error is a negative errno.
[[nodiscard]] bool is_signalled_in_time(long parent);
[[nodiscard]] long arm_death_signal(long parent);

}  // namespace hvd::launch::early
