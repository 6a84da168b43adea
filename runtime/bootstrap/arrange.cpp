// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/arrange.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

using coll::store::Member;

/// The ranks of one host, by local rank.
using Host = std::vector<const Member*>;

Result<Host> order_host(Host host) {
    const auto size = static_cast<int>(host.size());
    const bool is_said =
        std::ranges::all_of(host, [](const Member* member) { return member->local_rank >= 0; });
    if (is_said) {
        std::ranges::stable_sort(host, {}, &Member::local_rank);
    }
    for (int expected = 0; expected < size; ++expected) {
        const auto& member = *host[static_cast<std::size_t>(expected)];
        if ((is_said && member.local_rank != expected) ||
            (member.local_size >= 0 && member.local_size != size)) {
            return Error{Errc::invalid_argument,
                         describe(member) + " was told that it is local rank " +
                             std::to_string(member.local_rank) + " of " +
                             std::to_string(member.local_size) + ", but is number " +
                             std::to_string(expected) + " of the " + std::to_string(size) +
                             " ranks that came from there"};
        }
    }
    return host;
}

}  // namespace

Result<coll::Topology> arrange(std::span<const Member> membership, int rank) {
    std::map<std::string_view, std::size_t> numbers;
    std::vector<Host> hosts;
    for (const auto& member : membership) {
        const auto [entry, is_new] = numbers.try_emplace(member.node, hosts.size());
        if (is_new) {
            hosts.emplace_back();
        }
        hosts[entry->second].push_back(&member);
    }
    for (auto& host : hosts) {
        HVD_TRY(host, order_host(std::move(host)));
    }
    const auto& self = membership[static_cast<std::size_t>(rank)];
    const auto own = numbers.find(self.node)->second;
    const auto local_rank =
        static_cast<std::size_t>(std::ranges::find(hosts[own], &self) - hosts[own].begin());
    coll::Topology topology{.rank = rank,
                            .size = static_cast<int>(membership.size()),
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
