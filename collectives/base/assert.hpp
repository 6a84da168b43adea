// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// Prints where and why on standard error and aborts.
[[noreturn]] void assertion_failed(const char* file,
                                   int line,
                                   const char* condition,
                                   const char* why) noexcept;

}  // namespace hvd

/// For our own bugs, in release builds too. `why` says what must hold.
#define HVD_ASSERT(condition, why)                                          \
    do {                                                                    \
        if (!(condition)) [[unlikely]] {                                    \
            ::hvd::assertion_failed(__FILE__, __LINE__, #condition, (why)); \
        }                                                                   \
    } while (false)
