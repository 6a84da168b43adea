// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/remote/link.hpp"

#include "launcher/net/io_thread.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/wire/frames.hpp"

#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

namespace hvd::test {
namespace {

using launch::AgentChannel;
using launch::IoThread;
using launch::Starter;

struct Session {
    std::unique_ptr<AgentChannel> channel;
    launch::wire::FrameReader<launch::wire::FromAgent> reader;
};

std::vector<std::byte> magic() {
    std::vector<std::byte> bytes(launch::wire::kMagic.size());
    std::memcpy(bytes.data(), launch::wire::kMagic.data(), bytes.size());
    return bytes;
}

class Links {
public:
    Links(IoThread& io, std::size_t hosts, int pings)
        : io_(io), sessions_(hosts), left_(hosts), pings_(pings) {
        linked_.hosts.resize(hosts);
    }

    void start(Starter& starter, std::size_t index, const launch::Host& host) {
        auto channel = starter.start(host);
        if (!channel) {
            end(index, std::move(channel).error());
            return;
        }
        sessions_[index].channel = std::move(channel).value();
        sessions_[index].channel->open(
            {.on_bytes = [this, index](std::span<const std::byte> bytes) { receive(index, bytes); },
             .on_end = [this,
                        index](std::optional<Error> error) { end(index, std::move(error)); }});
        sessions_[index].channel->send(magic());
    }

    Linked& linked() { return linked_; }
    [[nodiscard]] bool is_over() const { return left_ == 0; }

private:
    void receive(std::size_t index, std::span<const std::byte> bytes) {
        auto& session = sessions_[index];
        auto& outcome = linked_.hosts[index];
        session.reader.feed(bytes);
        while (true) {
            auto message = session.reader.next();
            if (!message || !*message) {
                if (!message) {
                    outcome.error = std::move(message).error();
                }
                return;
            }
            if (const auto* facts = std::get_if<launch::wire::Facts>(&**message)) {
                outcome.has_reported = true;
                outcome.hostname = facts->facts.hostname;
                go_on(index);
            } else if (std::holds_alternative<launch::wire::Pong>(**message)) {
                ++outcome.pongs;
                go_on(index);
            }
        }
    }

    void go_on(std::size_t index) {
        auto& channel = *sessions_[index].channel;
        if (linked_.hosts[index].pongs == pings_) {
            channel.close();
            return;
        }
        channel.send(launch::wire::encode(launch::wire::ToAgent(launch::wire::Ping{})));
    }

    void end(std::size_t index, std::optional<Error> error) {
        auto& outcome = linked_.hosts[index];
        outcome.has_ended = true;
        outcome.error = std::move(error);
        if (--left_ == 0) {
            io_.stop();
        }
    }

    IoThread& io_;
    std::vector<Session> sessions_;
    std::size_t left_;
    const int pings_;
    Linked linked_;
};

}  // namespace

std::string words(const Linked& linked) {
    return linked.hosts.front().error.value_or(Error{}).message;
}

Linked link(const std::vector<launch::Host>& hosts,
            launch::SshTask task,
            std::chrono::milliseconds timeout,
            int pings) {
    const auto begin = std::chrono::steady_clock::now();
    IoThread io;
    Links links(io, hosts.size(), pings);
    task.note = [&](const std::string& host, const std::string& sentence) {
        links.linked().notes.push_back(host + ": " + sentence);
    };
    launch::StarterContext context{.program = {}, .agent = HVD_AGENT};
    (void)::sigemptyset(&context.signal_mask);
    auto starter = launch::make_ssh_starter(io, context, std::move(task));
    if (!starter) {
        throw Exception(std::move(starter).error());
    }
    launch::Timer limit(io);
    limit.set(Deadline::in(timeout), [&] { io.stop(); });
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        links.start(**starter, index, hosts[index]);
    }
    if (!links.is_over()) {
        io.run();
    }
    links.linked().took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    return links.linked();
}

Outcome link_through(const std::string& remote_shell) {
    return link({{.name = "there", .slots = {}}}, {.options = {.remote_shell = {remote_shell}}})
        .hosts.front();
}

}  // namespace hvd::test
