// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/keep_alive.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvd::coll::net {

void keep_alive(int socket) noexcept {
    constexpr int kOn = 1;
    constexpr int kIdleSeconds = 10;
    constexpr int kProbeSeconds = 5;
    constexpr int kProbes = 4;
    (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
    (void)::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
    (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
    (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof kProbeSeconds);
    (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

}  // namespace hvd::coll::net
