// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

namespace hvd::launch::agent {

/// The listening end of a measured link: it authenticates the connecting end by the launcher's
/// secret, and answers. One link at a time. Unauthenticated bytes close their connection.
class LinkListener final {
public:
    explicit LinkListener(EventLoop& loop) : loop_(loop) {}
    ~LinkListener() { close_all(); }
    LinkListener(const LinkListener&) = delete;
    LinkListener& operator=(const LinkListener&) = delete;

    /// Listens, and says where. What was open before is closed.
    [[nodiscard]] wire::LinkOpen open(const wire::OpenLink& wanted);
    void close(std::uint32_t id);

    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const {
        return deadline_;
    }
    void time_passed(std::chrono::steady_clock::time_point now);

private:
    struct Peer {
        UniqueFd socket;
        std::vector<std::byte> in{};      // of the proof or of a header, not yet whole
        std::vector<std::byte> unsent{};  // answers
        std::uint64_t header = 0;         // is answered after its payload
        std::uint64_t payload_left = 0;
        bool is_proven = false;
        bool is_waiting_to_write = false;
    };
    using Peers = std::list<Peer>;

    [[nodiscard]] Result<std::vector<std::byte>> listen(const wire::OpenLink& wanted);
    void accept_from(int listener);
    void on_ready(Peers::iterator peer);
    [[nodiscard]] bool read(Peer& peer);
    [[nodiscard]] static bool take(Peer& peer, std::span<const std::byte> bytes);
    [[nodiscard]] bool prove(Peer& peer, std::span<const std::byte> bytes);
    [[nodiscard]] bool write(Peer& peer);
    void stop_listening();
    void drop(Peers::iterator peer);
    void close_all();

    EventLoop& loop_;
    std::uint32_t id_ = 0;
    std::vector<std::byte> secret_;
    std::vector<std::byte> buffer_;  // while open
    std::vector<coll::net::Listener> listeners_;
    Peers peers_;
    std::optional<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace hvd::launch::agent
