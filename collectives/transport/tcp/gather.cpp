// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/gather.hpp"

#include <span>

#include <sys/uio.h>

namespace hvd::coll::net {
namespace {

Status wait_for(Mesh& mesh, int peer, Deadline deadline) {
    const auto& connection = mesh.peer(peer).control;
    if (connection.is_closed() || connection.is_broken()) {
        return Error{Errc::unavailable, mesh.describe(peer) + " has died"};
    }
    if (deadline.has_passed()) {
        return Error{Errc::timed_out, "no answer from " + mesh.describe(peer)};
    }
    (void)mesh.reactor().wait(deadline);
    mesh.reactor().dispatch();
    return ok();
}

Status send_all(Mesh& mesh, int peer, std::span<std::byte> bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const iovec part{bytes.data(), bytes.size()};
        const auto sent = mesh.peer(peer).control.send({&part, 1});
        bytes = bytes.subspan(sent);
        HVD_TRY_STATUS(sent == 0 ? wait_for(mesh, peer, deadline) : ok());
    }
    return ok();
}

Status recv_all(Mesh& mesh, int peer, std::span<std::byte> bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const iovec part{bytes.data(), bytes.size()};
        const auto received = mesh.peer(peer).control.recv({&part, 1});
        bytes = bytes.subspan(received);
        HVD_TRY_STATUS(received == 0 ? wait_for(mesh, peer, deadline) : ok());
    }
    return ok();
}

}  // namespace

Result<std::vector<std::byte>> gather_bytes(Mesh& mesh, std::byte own, Deadline deadline) {
    std::vector<std::byte> all(static_cast<std::size_t>(mesh.size()));
    if (mesh.rank() != 0) {
        HVD_TRY_STATUS(send_all(mesh, 0, {&own, 1}, deadline));
        HVD_TRY_STATUS(recv_all(mesh, 0, all, deadline));
        return all;
    }
    all.front() = own;
    for (int peer = 1; peer < mesh.size(); ++peer) {
        HVD_TRY_STATUS(recv_all(mesh, peer, {&all[static_cast<std::size_t>(peer)], 1}, deadline));
    }
    for (int peer = 1; peer < mesh.size(); ++peer) {
        HVD_TRY_STATUS(send_all(mesh, peer, all, deadline));
    }
    return all;
}

}  // namespace hvd::coll::net
