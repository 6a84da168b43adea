// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/wire/frames.hpp"
#include "launcher/wire/messages.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// A whole message to an agent, ready to send.
using Frame = std::vector<std::byte>;

/// One control stream to the agent of each host, as messages in both directions. Thread: io.
class AgentStreams final {
public:
    struct Events {
        std::function<void(std::size_t host, wire::FromAgent)> on_message;
        std::function<void(std::size_t host)> on_end;    // see `end_of`
        std::function<void(std::size_t host)> on_heard;  // any byte came
    };

    explicit AgentStreams(Events events) : events_(std::move(events)) {}

    /// Starts one on each host. Where the starter refuses, the agent ends at once with that error,
    /// so that the other hosts are reached all the same.
    void start(IoThread& io, Starter& starter, const std::vector<Host>& hosts);

    void send(std::size_t host, const wire::ToAgent& message);
    void send_frame(std::size_t host, std::vector<std::byte> frame);
    void send_all(const wire::ToAgent& message);

    /// As of AgentChannel.
    [[nodiscard]] std::string progress(std::size_t index) const {
        return links_[index]->channel->progress();
    }

    /// Whether somebody waits for this agent by hand.
    [[nodiscard]] bool wants_job_end(std::size_t index) const {
        return links_[index]->channel->wants_job_end();
    }

    /// To those that want to know. Comes before `close`.
    void tell_job_end(const wire::Ended& ended);

    /// Calls `sent` once what was sent to all of them has left us: at once, or later from the loop.
    void when_all_sent(const std::function<void()>& sent) { when_sent_from(0, sent); }

    /// Ends our direction of all streams: an agent that still has ranks ends them, and itself.
    void close();

    [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }
    [[nodiscard]] const Host& host(std::size_t index) const { return links_[index]->host; }
    [[nodiscard]] bool has_ended(std::size_t index) const { return links_[index]->has_ended; }
    [[nodiscard]] bool all_ended() const noexcept;

    /// Why this agent ended, where its end was not in order.
    [[nodiscard]] const std::optional<Error>& end_of(std::size_t index) const {
        return links_[index]->error;
    }

    /// Gives this agent up because of a message; its end follows.
    void refuse(std::size_t index, Error error);
    [[nodiscard]] bool was_refused(std::size_t index) const { return links_[index]->was_refused; }

    /// Takes this agent's end for granted: it cannot be reached. No event of it comes any more.
    void abandon(std::size_t index, Error error);

    [[nodiscard]] bool is_on_this_machine(std::size_t index) const {
        return links_[index]->channel->is_on_this_machine();
    }

private:
    struct Link {
        Host host;
        std::unique_ptr<AgentChannel> channel;
        wire::FrameReader<wire::FromAgent> reader;
        bool has_greeted = false;
        bool has_ended = false;
        bool was_refused = false;
        std::optional<Error> error;  // the first one
    };

    void when_sent_from(std::size_t index, const std::function<void()>& sent);
    void receive(std::size_t index, std::span<const std::byte> bytes);

    Events events_;
    std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace hvd::launch
