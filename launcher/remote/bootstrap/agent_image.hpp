// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <string>
#include <string_view>

namespace hvd::launch {

/// The program hvd-agent as it is sent to hosts that do not have it.
struct AgentImage {
    std::string file;       // its bytes
    std::string build_id;   // of this program; an agent of another one is refused when it reports
    std::string cache_key;  // build id and a hash of the bytes
    std::string machine;    // the `uname -m` that it runs on
};

/// Errors: unavailable, when it cannot be read; invalid_argument, when it is no program for Linux
/// on x86_64 or aarch64. Both name the file.
[[nodiscard]] Result<AgentImage> load_agent_image(const std::string& path,
                                                  std::string_view build_id);

}  // namespace hvd::launch
