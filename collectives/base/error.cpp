// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/error.hpp"

#include <cerrno>
#include <system_error>

namespace hvd {

std::string_view to_string(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_argument: return "invalid argument";
        case Errc::unavailable: return "unavailable";
        case Errc::timed_out: return "timed out";
        case Errc::aborted: return "aborted";
        case Errc::mismatch: return "mismatch";
        case Errc::unsupported: return "unsupported";
        case Errc::internal: return "internal error";
    }
    return "unknown error";
}

Error Error::context(std::string_view step) && {
    message.insert(0, std::string(step) + ": ");
    return std::move(*this);
}

Error system_error(std::string_view what, int error_number) {
    const auto code = error_number == ETIMEDOUT ? Errc::timed_out : Errc::unavailable;
    return {code, std::string(what) + ": " + std::generic_category().message(error_number)};
}

}  // namespace hvd
