// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <sys/stat.h>

namespace hvd::launch::wire {

/// Whether nobody but `user` and root decides what a token file with these properties holds. A user
/// who writes the token can join the job, and be joined. What is no regular file, such as a pipe,
/// is not judged. Errors: invalid_argument, with the remedy.
[[nodiscard]] Status check_token_file(const struct stat& file, uid_t user);

}  // namespace hvd::launch::wire
