// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/check.hpp"

#include <string>

namespace hvd::coll::nccl {

Error error_of(const Library& library, ncclResult_t result, std::string_view what) {
    std::string message(what);
    message +=
        ": NCCL " + version_text(library.version) + ": " + library.ncclGetErrorString(result);
    const char* const last = library.ncclGetLastError(nullptr);
    if (last != nullptr && *last != '\0') {
        message += " (" + std::string(last) + ")";
    }
    return {Errc::internal, message + "; NCCL_DEBUG=INFO says more"};
}

void check(const Library& library, ncclResult_t result, std::string_view what) {
    if (result != ncclSuccess && result != ncclInProgress) {
        throw Exception(error_of(library, result, what));
    }
}

}  // namespace hvd::coll::nccl
