// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/temp_dir.hpp"

#include <string>

#include <sys/types.h>

namespace hvd::test {

/// A private munged, with its own key and socket.
class MungeDaemon {
public:
    /// Waits until it serves. Throws where it cannot.
    MungeDaemon();
    ~MungeDaemon();
    MungeDaemon(const MungeDaemon&) = delete;
    MungeDaemon& operator=(const MungeDaemon&) = delete;

    [[nodiscard]] std::string socket() const { return (folder_.path() / "socket").string(); }

private:
    TempDir folder_;
    pid_t pid_ = 0;
};

}  // namespace hvd::test
