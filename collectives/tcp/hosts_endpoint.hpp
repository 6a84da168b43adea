// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/shm/shm_endpoint.hpp"
#include "collectives/tcp/tcp_endpoint.hpp"
#include "collectives/transport/endpoint.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll::tcp {

/// Messages between the members of a set on several hosts: through shared memory to those on this
/// host, over connections to the others. All members of a host make a step together.
///
/// Thread: progress lock.
class HostsEndpoint {
public:
    /// `far` reaches all members, `near` those on this host, whose places in the set are `on_host`,
    /// in the order of their places in `near`. Both outlive the endpoint.
    HostsEndpoint(TcpEndpoint& far, shm::ShmEndpoint& near, const std::vector<int>& on_host);

    [[nodiscard]] int place() const noexcept { return far_.place(); }
    [[nodiscard]] int size() const noexcept { return far_.size(); }
    void send(int place, std::span<const std::byte> bytes);
    void recv(int place, std::span<std::byte> bytes);
    void post();
    [[nodiscard]] Result<bool> wait();
    [[nodiscard]] std::vector<int> missing() const;

private:
    TcpEndpoint& far_;
    shm::ShmEndpoint& near_;
    std::vector<int> on_host_;
    std::vector<int> near_places_;  // by place in the set; -1: on another host
    bool near_has_ended_ = false;   // this step
};

static_assert(Endpoint<HostsEndpoint>);

}  // namespace hvd::coll::tcp
