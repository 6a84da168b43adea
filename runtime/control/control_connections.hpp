// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "runtime/control/control_frames.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace hvd::rt {

/// Frames over the control connections of one rank: rank 0 has one with every rank, each other rank
/// has one with rank 0.
///
/// Thread: progress lock. Nothing blocks but `drain`.
class ControlConnections {
public:
    using OnFrame = std::function<void(int peer, frame::Any message)>;
    using OnClosed = std::function<void(int peer)>;

    /// `mesh` outlives this. The handlers are called by `pump`.
    ControlConnections(coll::net::Mesh& mesh, OnFrame on_frame, OnClosed on_closed);

    /// Of the ranks with which this one has a connection, the first, and the one behind the last.
    [[nodiscard]] int first_peer() const noexcept { return mesh_.rank() == 0 ? 1 : 0; }
    [[nodiscard]] int end_peer() const noexcept { return mesh_.rank() == 0 ? mesh_.size() : 1; }

    /// Queues a frame; nothing where the peer is gone.
    void send(int peer, const frame::Any& message);
    void send_to_all(const frame::Any& message);

    /// Reads and writes what can be now. True if something moved.
    [[nodiscard]] bool pump();

    /// Writes what is queued, up to the deadline.
    void drain(Deadline deadline);

    /// Set when a peer has sent what no rank of this version does.
    [[nodiscard]] const std::optional<Error>& broken() const noexcept { return broken_; }

private:
    struct Peer {
        FrameReader in;
        std::vector<std::byte> out;  // not taken by the connection yet
        std::size_t out_taken = 0;   // of `out`
        bool is_gone = false;
    };

    [[nodiscard]] bool pump_in(int rank);
    [[nodiscard]] bool pump_out(int rank);
    [[nodiscard]] bool has_output() const noexcept;

    coll::net::Mesh& mesh_;
    OnFrame on_frame_;
    OnClosed on_closed_;
    std::vector<Peer> peers_;  // by rank
    std::optional<Error> broken_;
};

}  // namespace hvd::rt
