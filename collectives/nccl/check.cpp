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
    // Of these two the cause may be a peer that is gone.
    const bool is_of_peer = result == ncclRemoteError || result == ncclSystemError;
    return {is_of_peer ? Errc::unavailable : Errc::internal,
            message + "; NCCL_DEBUG=INFO says more"};
}

void check(const Library& library, ncclResult_t result, std::string_view what) {
    if (result != ncclSuccess && result != ncclInProgress) {
        throw Exception(error_of(library, result, what));
    }
}

}  // namespace hvd::coll::nccl
