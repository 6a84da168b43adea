// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/token_file.hpp"

#include <string>

namespace hvd::launch::wire {

Status check_token_file(const struct stat& file, uid_t user) {
    if (!S_ISREG(file.st_mode)) {
        return ok();
    }
    if ((file.st_mode & S_IWOTH) != 0) {
        return Error{Errc::invalid_argument,
                     "every user may write it, and so choose the token; make a new one and `chmod "
                     "600` it"};
    }
    // root reads files of others on purpose, in a container for one.
    if (file.st_uid != user && file.st_uid != 0 && user != 0) {
        return Error{Errc::invalid_argument, "it belongs to user number " +
                                                 std::to_string(file.st_uid) +
                                                 ", who chooses the token; use a file of your own"};
    }
    return ok();
}

}  // namespace hvd::launch::wire
