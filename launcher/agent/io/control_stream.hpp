// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/wire/encryption.hpp"
#include "launcher/wire/frames.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch::agent {

/// The agent's end of its session with the launcher: frames over a pair of descriptors. What is
/// sent is collected until `flush`. Nothing here blocks.
class ControlStream final {
public:
    struct Handlers {
        std::function<void(wire::ToAgent)> on_message;

        /// Called once: the launcher is gone, or a message of it cannot be read.
        std::function<void(std::optional<Error>)> on_end;
    };

    /// The descriptors, two different ones, stay open as long as this object. With an
    /// `encryption` every byte travels encrypted. Queues the magic.
    ControlStream(EventLoop& loop,
                  int from_launcher,
                  int to_launcher,
                  std::optional<wire::Encryption> encryption = std::nullopt);

    void open(Handlers handlers);

    void send(const wire::FromAgent& message);

    /// For what nobody waits for: it is written with the next thing that is sent, kLongestWait
    /// later at the latest. Over SSH each write wakes three processes.
    void send_soon(const wire::FromAgent& message);

    static constexpr auto kLongestWait = std::chrono::milliseconds(5);

    /// Sends a header and the bytes that belong to it, without a copy where the launcher keeps up.
    void send_output(std::span<const std::byte> header, std::span<const std::byte> payload);

    /// Writes what is queued as far as the launcher takes it, unless all of it may wait.
    void flush();

    /// When to flush what may wait until then.
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept {
        return is_urgent_ || is_waiting_to_write_ ? std::nullopt : due_;
    }

    /// Queues the end of an encrypted stream. What is sent later is dropped.
    void finish();

    /// Ends the session from this side: the launcher is not heard any more.
    void give_up(Error error) { end(std::move(error)); }

    /// Counts every byte that came.
    [[nodiscard]] std::uint64_t heard_bytes() const noexcept { return heard_bytes_; }

    [[nodiscard]] bool is_flushed() const noexcept { return unsent().empty(); }
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

private:
    void queue(const wire::FromAgent& message);
    [[nodiscard]] bool is_finished() const noexcept {
        return encryption_ && encryption_->encryptor.is_finished();
    }
    void read();
    void take(std::span<const std::byte> bytes);
    void write(std::span<const std::byte> header, std::span<const std::byte> payload);
    void end(std::optional<Error> error);
    [[nodiscard]] std::span<const std::byte> unsent() const noexcept {
        return std::span(queue_).subspan(sent_);
    }

    EventLoop& loop_;
    int from_launcher_;
    int to_launcher_;
    std::optional<wire::Encryption> encryption_;
    Handlers handlers_;
    wire::FrameReader<wire::ToAgent> reader_;
    std::vector<std::byte> queue_;
    std::size_t sent_ = 0;                                      // of queue_
    bool is_urgent_ = false;                                    // something in it
    std::optional<std::chrono::steady_clock::time_point> due_;  // of what is not
    std::uint64_t heard_bytes_ = 0;
    bool is_waiting_to_write_ = false;
    bool has_ended_ = false;
};

}  // namespace hvd::launch::agent
