// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hvd::coll::net {

/// Part of the error of a connection that was cut, wherever a rank has it from: no rank is to blame
/// for it.
inline constexpr std::string_view kCutNotice = " do not reach each other any more";

[[nodiscard]] constexpr bool is_cut_notice(std::string_view why) noexcept {
    return why.find(kCutNotice) != std::string_view::npos;
}

}  // namespace hvd::coll::net
