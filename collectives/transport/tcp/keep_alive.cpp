// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/keep_alive.hpp"

#include <algorithm>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

constexpr int kProbes = 4;

void set_option(int socket, int level, int option, int value) noexcept {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

void keep_alive(int socket, std::chrono::milliseconds limit) noexcept {
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    if (limit.count() <= 0) {
        return;
    }
    // A third of the limit passes before the first probe, and the rest while four are unanswered.
    const auto seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(limit).count());
    const int interval = std::max(1, (seconds - seconds / 3) / kProbes);
    const int idle = std::max(1, seconds - kProbes * interval);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

// TCP_USER_TIMEOUT would do this in the kernel, but ends a connection whose peer is alive and reads
// nothing, too: it counts from the last time that the peer had room.
SendState send_state(int socket) noexcept {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
        return {};
    }
    return {.has_unacknowledged = info.tcpi_unacked != 0 || info.tcpi_notsent_bytes != 0,
            .is_unanswered = info.tcpi_last_ack_recv > info.tcpi_last_data_sent,
            .retransmissions = info.tcpi_retransmits,
            .since_answer = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace hvd::coll::net
