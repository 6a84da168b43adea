// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/write_all.hpp"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace hvd::launch {

int write_all(int fd, std::string_view bytes, const std::function<void()>& wrote) {
    while (!bytes.empty()) {
        const auto size = ::write(fd, bytes.data(), bytes.size());
        if (size >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(size));
            wrote();
        } else if (errno == EAGAIN) {
            // Somebody who shares the descriptor has made it non-blocking.
            pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
            (void)::poll(&writable, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int write_all(int fd, std::string_view bytes) {
    return write_all(fd, bytes, [] {});
}

}  // namespace hvd::launch
