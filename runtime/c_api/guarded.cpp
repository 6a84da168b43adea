// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/guarded.hpp"

#include <exception>
#include <new>

namespace hvd::rt::abi {

std::string& last_error() noexcept {
    thread_local std::string sentence;
    return sentence;
}

hvd_status fail(Error error) noexcept {
    last_error() = std::move(error.message);
    return static_cast<hvd_status>(static_cast<int>(error.code) + 1);
}

hvd_status fail_by_exception() noexcept {
    try {
        try {
            throw;
        } catch (const hvd::Exception& exception) {
            return fail(exception.error());
        } catch (const std::bad_alloc&) {
            return fail({Errc::internal, "out of memory"});
        } catch (const std::exception& exception) {
            return fail({Errc::internal, exception.what()});
        } catch (...) {
            return fail({Errc::internal, "unexpected exception"});
        }
    } catch (...) {  // no memory for the sentence
        last_error().clear();
        return HVD_INTERNAL;
    }
}

}  // namespace hvd::rt::abi
