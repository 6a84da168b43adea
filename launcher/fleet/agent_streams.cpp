// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/agent_streams.hpp"

#include "launcher/net/timer.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {

namespace {

/// To an agent that could not be started.
class RefusedChannel final : public AgentChannel {
public:
    RefusedChannel(IoThread& io, Error error) : error_(std::move(error)), io_(io), soon_(io) {}

    void open(Handlers handlers) override {
        soon_.set(io_.in({}), [this, tell = std::move(handlers.on_end)] { tell(error_); });
    }
    void send(std::vector<std::byte> /*bytes*/) override {}
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override {}

private:
    Error error_;
    IoThread& io_;
    Timer soon_;
};

}  // namespace

void AgentStreams::start(IoThread& io, Starter& starter, const std::vector<Host>& hosts) {
    for (const auto& host : hosts) {
        auto started = starter.start(host);
        auto link = std::make_unique<Link>();
        link->host = host;
        if (started) {
            link->channel = std::move(started).value();
        } else {
            link->channel = std::make_unique<RefusedChannel>(io, std::move(started).error());
        }
        links_.push_back(std::move(link));
        const auto index = links_.size() - 1;
        links_[index]->channel->open(
            {.on_bytes = [this, index](std::span<const std::byte> bytes) { receive(index, bytes); },
             .on_end =
                 [this, index](std::optional<Error> error) {
                     auto& ended = *links_[index];
                     if (std::exchange(ended.has_ended, true)) {
                         return;  // it was abandoned
                     }
                     if (!ended.error) {
                         ended.error = std::move(error);
                     }
                     events_.on_end(index);
                 }});
    }
}

void AgentStreams::send(std::size_t host, const wire::ToAgent& message) {
    send_frame(host, wire::encode(message));
}

void AgentStreams::send_frame(std::size_t host, std::vector<std::byte> frame) {
    auto& link = *links_[host];
    if (link.has_ended) {
        return;
    }
    if (!std::exchange(link.has_greeted, true)) {
        const auto* magic = reinterpret_cast<const std::byte*>(wire::kMagic.data());
        frame.insert(frame.begin(), magic, magic + wire::kMagic.size());
    }
    link.channel->send(std::move(frame));
}

void AgentStreams::send_all(const wire::ToAgent& message) {
    for (std::size_t host = 0; host < links_.size(); ++host) {
        send(host, message);
    }
}

void AgentStreams::tell_job_end(const wire::Ended& ended) {
    for (std::size_t host = 0; host < links_.size(); ++host) {
        if (wants_job_end(host)) {
            send(host, ended);
        }
    }
}

void AgentStreams::when_sent_from(std::size_t index, const std::function<void()>& sent) {
    if (index == links_.size()) {
        sent();
        return;
    }
    links_[index]->channel->when_sent([this, index, sent] { when_sent_from(index + 1, sent); });
}

void AgentStreams::close() {
    for (const auto& link : links_) {
        link->channel->close();
    }
}

bool AgentStreams::all_ended() const noexcept {
    return std::ranges::all_of(links_, [](const auto& link) { return link->has_ended; });
}

void AgentStreams::refuse(std::size_t index, Error error) {
    auto& link = *links_[index];
    link.was_refused = true;
    if (!link.error) {
        link.error = std::move(error);
    }
    link.channel->close();
}

void AgentStreams::abandon(std::size_t index, Error error) {
    links_[index]->has_ended = true;
    refuse(index, std::move(error));
}

void AgentStreams::receive(std::size_t index, std::span<const std::byte> bytes) {
    auto& link = *links_[index];
    if (link.error) {
        return;  // refused: what it still sends means nothing
    }
    events_.on_heard(index);
    link.reader.feed(bytes);
    while (!link.error) {
        auto message = link.reader.next();
        if (!message) {
            refuse(index, std::move(message).error());
            return;
        }
        if (!*message) {
            return;
        }
        events_.on_message(index, std::move(**message));
    }
}

}  // namespace hvd::launch
