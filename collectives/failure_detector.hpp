// SPDX-License-Identifier: Apache-2.0
//
// Notices of the ends of peers, from a process that watches the ranks (the agent). Connections do
// not show every end: a pulled cable sends nothing, and a child that a rank forked may hold the
// sockets of the rank open.
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>

namespace hvd::coll {

struct PeerFailure {
    int rank = 0;
    std::string why;  // a sentence that names rank and host

    friend bool operator==(const PeerFailure&, const PeerFailure&) = default;
};

/// Thread: progress lock.
class FailureDetector {
public:
    virtual ~FailureDetector() = default;
    FailureDetector(const FailureDetector&) = delete;
    FailureDetector& operator=(const FailureDetector&) = delete;

    /// Readable when `next_failure` may have something to return.
    [[nodiscard]] virtual int failure_descriptor() const noexcept = 0;

    /// The next rank that is gone, or nothing now. Never blocks. Errors: nothing more will come.
    [[nodiscard]] virtual Result<std::optional<PeerFailure>> next_failure() = 0;

protected:
    FailureDetector() = default;
};

}  // namespace hvd::coll
