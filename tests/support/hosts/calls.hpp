// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace hvd::test {

/// The result of a system call, or an exception that names what was tried.
template <class Number>
Number check(Number result, const std::string& what) {
    if (result < 0) {
        throw std::system_error(errno, std::generic_category(), what);
    }
    return result;
}

/// The process that asked for this one ends: this one is killed.
void die_with_parent();

}  // namespace hvd::test
