// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace hvd::coll::net {

/// For a connection over which messages go back and forth: they leave at once, and the kernel
/// notices within the limit that the other host does not answer, while nothing is being sent. A
/// process that is stopped or late is no failure: its kernel answers. 0: never.
void keep_alive(int socket, std::chrono::milliseconds limit = std::chrono::seconds(30)) noexcept;

/// The state of the bytes that were sent and not acknowledged, which keep_alive does not cover.
struct SendState {
    bool has_unacknowledged = false;  // also those that wait for room at the peer
    bool is_unanswered = false;       // nothing has come since the last bytes were sent
    int retransmissions = 0;          // since the last bytes were acknowledged
    std::chrono::milliseconds since_answer{0};
};
[[nodiscard]] SendState send_state(int socket) noexcept;

}  // namespace hvd::coll::net
