// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/watch.hpp"

#include <unistd.h>

namespace hvd::coll::mpi {

Watch::Watch(Deadline deadline, std::string_view call, std::string_view reason)
    : sentence_("horovod: process " + std::to_string(::getpid()) + ": " + std::string(call) +
                " has not returned in time: " + std::string(reason) +
                "; the call cannot be called off, so this process ends\n") {
    if (!deadline.is_never()) {
        thread_ =
            std::jthread([this, deadline](const std::stop_token& stop) { run(stop, deadline); });
    }
}

void Watch::run(const std::stop_token& stop, Deadline deadline) {
    std::unique_lock lock(mutex_);
    (void)nothing_.wait_until(lock, stop, *deadline.end(), [] { return false; });
    if (stop.stop_requested()) {
        return;
    }
    // Neither exit handlers nor destructors: MPI holds its locks, and its end would wait as well.
    [[maybe_unused]] const auto bytes = ::write(STDERR_FILENO, sentence_.data(), sentence_.size());
    ::_exit(kStatus);
}

}  // namespace hvd::coll::mpi
