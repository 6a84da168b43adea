// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/idle_release.hpp"

namespace hvd::rt {

void IdleRelease::release_if_due() {
    if (!at_.has_passed()) {
        return;
    }
    at_ = Deadline::never();
    for (const auto& backend : backends_.all) {
        backend->release_idle();
    }
}

}  // namespace hvd::rt
