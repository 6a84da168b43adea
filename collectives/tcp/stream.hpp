// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/tcp/frame.hpp"
#include "collectives/transport/tcp/connection.hpp"

#include <cstddef>
#include <deque>
#include <vector>

namespace hvd::coll::tcp {

/// Frames both ways on the connection with one peer. Knows nothing of sets.
///
/// Thread: progress lock.
class Stream {
public:
    class Owner {
    public:
        /// A frame begins: where its payload goes. Nothing: nowhere.
        [[nodiscard]] virtual Result<Message*> on_frame(int rank, const Frame& frame) = 0;
        /// The payload of a frame that has one, or of a whole message, is there.
        virtual void on_payload(int rank, const Frame& frame) = 0;
        /// The message has been taken.
        virtual void on_sent(int rank, const Frame& frame) = 0;

    protected:
        Owner() = default;
        ~Owner() = default;
        Owner(const Owner&) = default;
        Owner& operator=(const Owner&) = default;
    };

    /// `owner` outlives it.
    Stream(Owner& owner, int rank) : owner_(owner), rank_(rank) {}

    /// A frame without payload goes before messages.
    void send_control(const Frame& frame) { control_.push_back(frame); }
    /// Its frames take turns with those of others. `message` stays until on_sent or `forget`.
    void send(const Frame& frame, Message& message) { messages_.push_back({frame, &message}); }

    /// The memory of a message is about to go: the rest of a frame that has begun is sent as zeros,
    /// or received into nothing.
    void forget(const Message& message) noexcept;

    /// Moves what can be moved now. True when it has stopped before that, for others to have their
    /// turn. Errors: internal when the peer sends something else.
    [[nodiscard]] Result<bool> pump(net::Connection& link);

    [[nodiscard]] bool has_to_send() const noexcept {
        return !control_.empty() || !messages_.empty() || is_sending_;
    }

private:
    struct Outgoing {
        Frame frame;
        Message* message;  // none: control, or forgotten
    };

    [[nodiscard]] bool send_some(net::Connection& link);
    void begin_frame();
    void end_frame();
    [[nodiscard]] Result<bool> recv_some(net::Connection& link);
    [[nodiscard]] Status take_header();
    [[nodiscard]] std::size_t take_ahead(std::byte* to, std::size_t bytes) noexcept;
    void deliver_ahead();

    Owner& owner_;
    int rank_;

    std::deque<Frame> control_;
    std::deque<Outgoing> messages_;
    Outgoing current_{};  // the frame that is being sent
    std::size_t header_sent_ = 0;
    std::size_t payload_left_ = 0;
    bool is_sending_ = false;

    std::vector<std::byte> ahead_;  // received beyond what was wanted
    std::size_t ahead_begin_ = 0;
    std::size_t ahead_end_ = 0;
    Frame incoming_{};
    Message* target_ = nullptr;
    std::size_t incoming_left_ = 0;
    bool is_in_frame_ = false;
};

}  // namespace hvd::coll::tcp
