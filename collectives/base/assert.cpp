// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace hvd {

void assertion_failed(const char* file, int line, const char* condition, const char* why) noexcept {
    (void)std::fprintf(stderr, "horovod: %s:%d: %s does not hold: %s\n", file, line, condition,
                       why);
    std::abort();
}

}  // namespace hvd
