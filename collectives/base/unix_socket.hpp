// SPDX-License-Identifier: Apache-2.0
//
// Abstract Unix sockets with deadlines: for the agent's socket and for the ranks of one host.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvd {

/// The process at the other end: of a listening socket's connection, the process that listens.
struct PeerCredentials {
    pid_t pid = 0;
    uid_t uid = 0;
};

[[nodiscard]] Result<PeerCredentials> peer_credentials(int socket);

/// A non-blocking socket that listens on the abstract name. Errors: invalid_argument for a name
/// that is too long, unavailable.
struct Listening {
    UniqueFd socket;
    bool is_name_taken = false;  // then there is no socket
};
[[nodiscard]] Result<Listening> listen_abstract(std::string_view name, int socket_type);

/// The abstract names that begin so, and at which somebody listens, in the text of /proc/net/unix.
/// Any user can make such names.
[[nodiscard]] std::vector<std::string> listening_abstract_names(std::string_view table,
                                                                std::string_view prefix);
/// The same of this network namespace; none where /proc does not tell.
[[nodiscard]] std::vector<std::string> listening_abstract_names(std::string_view prefix);

/// Connects; waits for room in the listener's queue, not for a listener, and
/// not at all where `socket_type` has SOCK_NONBLOCK. The socket is non-blocking and close-on-exec,
/// or none where nobody listens. Errors: timed_out, unavailable.
[[nodiscard]] Result<UniqueFd> connect_abstract(std::string_view name,
                                                int socket_type,
                                                Deadline deadline);

/// Waits until the socket is ready for `poll_events`. Errors: timed_out, without a context.
[[nodiscard]] Status await_socket(int socket, short poll_events, Deadline deadline);

/// Sends all bytes on a stream. Never raises SIGPIPE. Errors: timed_out, unavailable.
[[nodiscard]] Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline);

/// One packet of a SOCK_SEQPACKET socket, with descriptors. Errors: timed_out, unavailable.
[[nodiscard]] Status send_packet(int socket,
                                 std::span<const std::byte> bytes,
                                 std::span<const int> fds,
                                 Deadline deadline);

struct Packet {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;  // close-on-exec
};

inline constexpr std::size_t kMaxPacketBytes = 16 << 10;
inline constexpr std::size_t kMaxPacketFds = 200;  // the kernel takes 253

/// The next packet. Errors: timed_out, unavailable when the other end closed.
[[nodiscard]] Result<Packet> receive_packet(int socket, Deadline deadline);

}  // namespace hvd
