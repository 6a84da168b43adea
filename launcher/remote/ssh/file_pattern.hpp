// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::ssh {

/// The files that an absolute path with `*`, `?` and `[...]` in any of its parts names, sorted; the
/// path itself where it has none of these. A leading dot is matched by a dot alone. As glob(3),
/// which a program linked statically cannot have.
[[nodiscard]] std::vector<std::string> expand_file_pattern(std::string_view pattern);

}  // namespace hvd::launch::ssh
