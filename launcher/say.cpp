// SPDX-License-Identifier: Apache-2.0
#include "launcher/say.hpp"

#include "launcher/output/write_all.hpp"

#include <unistd.h>

namespace hvd::launch {

void say_on_stderr(const std::string& sentence) {
    (void)write_all(STDERR_FILENO, "horovodrun: " + sentence + "\n");
}

}  // namespace hvd::launch
