// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace hvd::coll::tcp {

/// One step of a collective: at most one message to each peer and one from each, all at the same
/// time. Every rank knows how long each message is; the header in front of it only proves that both
/// ends are at the same step.
///
/// The link with a peer is made when the first message is due. A peer that is gone sends nothing
/// more: who watches the control links knows why, and aborts; the exchange itself gives up a while
/// later, since nobody may be there any more to tell.
class Exchange {
public:
    explicit Exchange(net::Mesh& mesh);

    /// Forgets the last step. Steps are counted; all ranks are at the same one.
    void begin();

    /// Adds memory to the message to, or from, `peer`. It stays as it is until the step is over.
    /// With no bytes it is still a message.
    void send(int peer, std::span<const std::byte> bytes);
    void receive(int peer, std::span<std::byte> bytes);

    /// Moves what can be moved now. True when the step is over. Errors: internal when a peer is at
    /// another step, unavailable when it is gone or cannot be reached, timed_out when it does not
    /// answer.
    [[nodiscard]] Result<bool> pump();

private:
    struct Header {
        std::uint32_t magic = 0;
        std::uint32_t step = 0;
        std::uint64_t bytes = 0;

        friend bool operator==(const Header&, const Header&) = default;
    };

    /// One direction of one link.
    struct Flow {
        Header header;             // sent, or what came
        std::uint64_t bytes = 0;   // of the message
        std::vector<iovec> parts;  // the header first
        std::size_t at = 0;        // the first part that is not done

        [[nodiscard]] bool is_done() const noexcept { return at == parts.size(); }
        void add(void* memory, std::size_t size);
        [[nodiscard]] std::span<const iovec> rest() const noexcept;
        void advance(std::size_t moved) noexcept;
    };

    struct Pair {
        Flow out;
        Flow in;
        bool checked = false;  // the header that came
    };

    void seal();
    [[nodiscard]] Status look_at(int peer);
    void pump_out(int peer, Pair& pair);
    [[nodiscard]] Status pump_in(int peer, Pair& pair);
    [[nodiscard]] Status check(int peer, Pair& pair) const;

    net::Mesh& mesh_;
    std::vector<Pair> pairs_;  // by rank
    std::uint32_t step_ = 0;
    bool sealed_ = false;
    std::optional<Alarm> alarm_;  // set when a peer is gone
    int gone_peer_ = -1;          // the first
    Deadline gone_limit_ = Deadline::never();
};

}  // namespace hvd::coll::tcp
