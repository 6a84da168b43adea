// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/callback.hpp"

#include <exception>
#include <new>
#include <string>

namespace hvd::rt::abi {
namespace {

thread_local int depth = 0;  // callbacks within callbacks: of operations that have ended already

/// Counts a callback of this thread while it lives.
class Inside {
public:
    Inside() noexcept { ++depth; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { --depth; }
};

Error thrown(std::string_view what) noexcept {
    try {
        return {Errc::internal,
                "the callback of hvd_on_complete threw an exception: " + std::string(what)};
    } catch (const std::bad_alloc&) {
        return {Errc::internal, {}};
    }
}

}  // namespace

Status call_back(hvd_callback done, void* argument, const Error* error) {
    const Inside inside;
    // Of the user's: neither the engine's thread nor C code on this one may be unwound by it.
    try {
        if (error == nullptr) {
            done(argument, HVD_OK, "");
        } else {
            const auto status = static_cast<hvd_status>(static_cast<int>(error->code) + 1);
            done(argument, status, error->message.c_str());
        }
        return ok();
    } catch (const std::exception& exception) {
        return thrown(exception.what());
    } catch (...) {
        return thrown("it is no std::exception");
    }
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
