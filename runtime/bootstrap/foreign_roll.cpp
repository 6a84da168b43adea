// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_roll.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

using coll::meeting::Guest;

/// The ranks of one host, by local rank.
using Host = std::vector<const Guest*>;

Result<Host> order_host(Host host) {
    const auto size = static_cast<int>(host.size());
    const bool is_said =
        std::ranges::all_of(host, [](const Guest* guest) { return guest->local_rank >= 0; });
    if (is_said) {
        std::ranges::stable_sort(host, {}, &Guest::local_rank);
    }
    for (int expected = 0; expected < size; ++expected) {
        const auto& guest = *host[static_cast<std::size_t>(expected)];
        if ((is_said && guest.local_rank != expected) ||
            (guest.local_size >= 0 && guest.local_size != size)) {
            return Error{Errc::invalid_argument,
                         describe(guest) + " was told that it is local rank " +
                             std::to_string(guest.local_rank) + " of " +
                             std::to_string(guest.local_size) + ", but is number " +
                             std::to_string(expected) + " of the " + std::to_string(size) +
                             " ranks that came from there"};
        }
    }
    return host;
}

}  // namespace

Result<coll::Topology> arrange(std::span<const Guest> roll, int rank) {
    std::map<std::string_view, std::size_t> numbers;
    std::vector<Host> hosts;
    for (const auto& guest : roll) {
        const auto [entry, is_new] = numbers.try_emplace(guest.node, hosts.size());
        if (is_new) {
            hosts.emplace_back();
        }
        hosts[entry->second].push_back(&guest);
    }
    for (auto& host : hosts) {
        HVD_TRY(host, order_host(std::move(host)));
    }
    const auto& self = roll[static_cast<std::size_t>(rank)];
    const auto own = numbers.find(self.node)->second;
    const auto local_rank =
        static_cast<std::size_t>(std::ranges::find(hosts[own], &self) - hosts[own].begin());
    coll::Topology topology{.rank = rank,
                            .size = static_cast<int>(roll.size()),
                            .local_rank = static_cast<int>(local_rank),
                            .local_size = static_cast<int>(hosts[own].size()),
                            .cross_rank = 0,
                            .cross_size = 0};
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        if (hosts[host].size() > local_rank) {
            topology.cross_rank += host < own ? 1 : 0;
            ++topology.cross_size;
        }
    }
    return topology;
}

}  // namespace hvd::rt
