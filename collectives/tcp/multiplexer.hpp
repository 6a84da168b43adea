// SPDX-License-Identifier: Apache-2.0
//
// The messages of all process sets on the data connections of a world, one for each pair of ranks.
// No set waits for another: a short message is kept by a receiver that has not come to it, up to a
// window for each set and sender; a long one is sent once the receiver has asked for it, in frames
// that take turns with those of other messages.
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/tcp/frame.hpp"
#include "collectives/tcp/stream.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::coll::tcp {

/// One set's messages to and from one other member.
struct Pair {
    /// A message that came before this member's step.
    struct Early {
        std::uint32_t step = 0;
        std::vector<std::byte> memory;
        Message message;
    };

    SetKey set{};
    int rank = 0;            // the other member
    std::size_t* left = {};  // messages of the step that are not over; none: the set is not open

    Message out;
    std::uint32_t out_step = 0;
    bool has_out = false;        // of this step, not over
    bool waits_to_send = false;  // for the window or a grant
    std::size_t in_window = 0;   // sent unasked for, and not yet taken
    std::optional<std::uint32_t> granted{};

    Message in;
    std::uint32_t in_step = 0;
    bool has_in = false;
    std::deque<Early> early;
    std::size_t taken = 0;  // of the window, and not yet told
    std::optional<Error> failure{};

    /// Whether there are messages of the step, and the other member has not begun it: it has sent
    /// nothing, or has not asked for the message that it is to take.
    [[nodiscard]] bool is_untouched() const noexcept {
        return (has_in && early.empty() && in.left() == in.bytes()) || (has_out && waits_to_send);
    }
};

/// Thread: progress lock.
class Multiplexer final : private Stream::Owner {
public:
    /// `mesh` outlives it; its data connections are this object's alone.
    /// Throws Exception when the process is out of descriptors.
    explicit Multiplexer(net::Mesh& mesh);
    virtual ~Multiplexer();
    Multiplexer(const Multiplexer&) = delete;
    Multiplexer& operator=(const Multiplexer&) = delete;

    [[nodiscard]] net::Mesh& mesh() noexcept { return mesh_; }

    /// The pair of a set with a rank, which stays where it is until `close`.
    [[nodiscard]] Pair& pair(SetKey set, int rank);
    /// Drops what the set has with the rank: nothing is sent from its memory any more.
    void close(SetKey set, int rank) noexcept;

    /// Begins what was added to `pair.out` and `pair.in` for a step.
    void begin(Pair& pair);
    /// The memory of what is under way is about to go.
    void abandon(Pair& pair) noexcept;

    /// Moves what can be moved now, of all sets. Errors: internal when a peer sends nonsense.
    [[nodiscard]] Status pump();

    /// Whether the peer of a message that is not over will ever do its part. Errors: internal when
    /// it is at another step, unavailable when it is gone or cannot be reached, timed_out when it
    /// does not answer.
    [[nodiscard]] Status check(const Pair& pair);

private:
    [[nodiscard]] Result<Message*> on_frame(int rank, const Frame& frame) override;
    void on_payload(int rank, const Frame& frame) override;
    void on_sent(int rank, const Frame& frame) override;

    [[nodiscard]] Stream& stream(int rank) { return streams_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] Message* on_whole(Pair& pair, const Frame& frame);
    [[nodiscard]] static Message* on_part(Pair& pair, const Frame& frame);
    void begin_out(Pair& pair);
    void begin_in(Pair& pair);
    void take_early(Pair& pair);
    static void end_in(Pair& pair);
    void free_window(Pair& pair, std::size_t bytes);
    [[nodiscard]] bool is_expected(Pair& pair, std::uint32_t step, std::uint64_t bytes);

    net::Mesh& mesh_;
    UniqueFd again_;  // readable while there is more to move: the connections do not wake for that
    std::vector<Stream> streams_;                   // by rank
    std::map<std::pair<int, SetKey>, Pair> pairs_;  // by rank first
    std::optional<Alarm> alarm_;                    // set when a peer is gone
    int gone_peer_ = -1;                            // the first
    Deadline gone_limit_ = Deadline::never();
};

}  // namespace hvd::coll::tcp
