// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace hvd::launch {

/// Writes everything, however long that takes. Returns 0 or errno. `wrote` is called after each
/// system call that wrote something.
[[nodiscard]] int write_all(int fd, std::string_view bytes, const std::function<void()>& wrote);
[[nodiscard]] int write_all(int fd, std::string_view bytes);

}  // namespace hvd::launch
