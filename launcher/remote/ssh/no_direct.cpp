// SPDX-License-Identifier: Apache-2.0
//
// Linked instead of direct.cpp where there is no libssh2.
#include "launcher/remote/ssh/direct.hpp"

namespace hvd::launch::ssh {

std::unique_ptr<DirectSsh> make_direct_ssh(IoThread& /*io*/) {
    return nullptr;
}

}  // namespace hvd::launch::ssh
