// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"

namespace hvd::launch::wire {
namespace {

constexpr std::string_view kBuildId = HVD_VERSION "+" HVD_WIRE_HASH;

}  // namespace

/// Also called before the C library has started, so nothing is computed here.
std::string_view build_id() noexcept {
    return kBuildId;
}

std::string_view product_version() noexcept {
    return HVD_VERSION;
}

}  // namespace hvd::launch::wire
