// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <sys/types.h>

namespace hvd::launch::agent {

struct EndedChild {
    pid_t pid = 0;
    int wait_status = 0;
    std::uint64_t max_rss_bytes = 0;
};

/// Which children this process has after a look at those that ended.
enum class Children { none, alive, ended };

/// Reaps the children that have ended and passes each to `on_end`. `ended`: there may be more. It
/// takes 20 ms at most, since a child may fork as fast: the kernel has the oldest child first.
Children reap_children(const std::function<void(const EndedChild&)>& on_end);

}  // namespace hvd::launch::agent
