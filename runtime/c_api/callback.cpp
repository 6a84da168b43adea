// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/callback.hpp"

#include "collectives/base/log.hpp"

#include <exception>
#include <string>

namespace hvd::rt::abi {
namespace {

thread_local int depth = 0;  // callbacks within callbacks: of operations that have ended already

void log_exception(std::string_view what) noexcept {
    try {
        Logger("hvd_on_complete", LogLevel::warn)
            .warn("a callback threw an exception, which ends here: " + std::string(what));
    } catch (...) {  // no memory for a line: the callback's fault is all that is lost
    }
}

}  // namespace

void call_back(hvd_callback done, void* argument, const Error* error) noexcept {
    ++depth;
    // Of the user's: neither the engine's thread nor C code on this one may be unwound by it.
    try {
        if (error == nullptr) {
            done(argument, HVD_OK, "");
        } else {
            const auto status = static_cast<hvd_status>(static_cast<int>(error->code) + 1);
            done(argument, status, error->message.c_str());
        }
    } catch (const std::exception& exception) {
        log_exception(exception.what());
    } catch (...) {
        log_exception("it is no std::exception");
    }
    --depth;
}

bool is_in_callback() noexcept {
    return depth != 0;
}

Status refuse_in_callback(std::string_view function) {
    if (is_in_callback()) {
        return Error{Errc::invalid_argument,
                     std::string(function) + ": not in a callback, which must not wait"};
    }
    return ok();
}

}  // namespace hvd::rt::abi
