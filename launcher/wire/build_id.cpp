// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"

namespace hvd::launch::wire {

std::string_view build_id() noexcept {
    return HVD_VERSION "+" HVD_WIRE_HASH;
}

std::string_view product_version() noexcept {
    return HVD_VERSION;
}

}  // namespace hvd::launch::wire
