// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hvd {

/// The path of `library`, such as "libnccl.so.2", in the dynamic loader's cache; empty where it is
/// not there.
[[nodiscard]] std::string find_in_loader_cache(std::string_view library);

}  // namespace hvd
