// SPDX-License-Identifier: Apache-2.0
#include "collectives/tcp/hosts_endpoint.hpp"

#include <algorithm>

namespace hvd::coll::tcp {

HostsEndpoint::HostsEndpoint(TcpEndpoint& far,
                             shm::ShmEndpoint& near,
                             const std::vector<int>& on_host)
    : far_(far),
      near_(near),
      on_host_(on_host),
      near_places_(static_cast<std::size_t>(far.size()), -1) {
    for (std::size_t place = 0; place < on_host.size(); ++place) {
        near_places_[static_cast<std::size_t>(on_host[place])] = static_cast<int>(place);
    }
}

void HostsEndpoint::send(int place, std::span<const std::byte> bytes) {
    const int near_place = near_places_[static_cast<std::size_t>(place)];
    if (near_place < 0) {
        far_.send(place, bytes);
    } else {
        near_.send(near_place, bytes);
    }
}

void HostsEndpoint::recv(int place, std::span<std::byte> bytes) {
    const int near_place = near_places_[static_cast<std::size_t>(place)];
    if (near_place < 0) {
        far_.recv(place, bytes);
    } else {
        near_.recv(near_place, bytes);
    }
}

void HostsEndpoint::post() {
    near_has_ended_ = false;
    far_.post();
    near_.post();
}

Result<bool> HostsEndpoint::wait() {
    HVD_TRY(const bool far_has_ended, far_.wait());
    if (!near_has_ended_) {
        HVD_TRY(near_has_ended_, near_.wait());
    }
    return far_has_ended && near_has_ended_;
}

std::vector<int> HostsEndpoint::missing() const {
    auto places = far_.missing();
    if (!near_has_ended_) {
        for (const int near_place : near_.missing()) {
            places.push_back(on_host_[static_cast<std::size_t>(near_place)]);
        }
    }
    std::ranges::sort(places);
    return places;
}

}  // namespace hvd::coll::tcp
