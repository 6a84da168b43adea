// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/descriptors.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/wire/frames.hpp"
#include "launcher/wire/join.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// A connection to the JoinListener: unauthenticated until it has proven the token, then
/// authenticated, and once it was welcomed the control stream of an agent. Thread: io.
class JoinConnection final {
public:
    /// Events before `attach`. A handler may not destroy the connection.
    struct Events {
        std::function<void(const wire::Introduction&)> on_introduced;
        std::function<void(const HostFacts&)> on_facts;  // after the welcome

        /// Called once, last. It is over: it ended, made no sense, or took too long.
        std::function<void(const Error&)> on_failed;
    };

    JoinConnection(IoThread& io, UniqueFd reading, UniqueFd writing, std::string address);
    ~JoinConnection();
    JoinConnection(const JoinConnection&) = delete;
    JoinConnection& operator=(const JoinConnection&) = delete;

    /// `timeout`: until it must have been introduced.
    void start(const wire::Key& token, std::chrono::milliseconds timeout, Events events);

    void welcome();

    /// Says why, and ends our direction; `on_failed` follows.
    void refuse(const std::string& why);

    [[nodiscard]] const std::string& address() const noexcept { return address_; }
    [[nodiscard]] bool is_proven() const noexcept { return state_ > State::unauthenticated; }

    /// There are no more events: what comes is kept for `attach`.
    void hold();

    // From here on as of AgentChannel.
    void attach(AgentChannel::Handlers handlers);
    void send(std::span<const std::byte> plain);
    void when_sent(std::function<void()> sent) { writer_.when_sent(std::move(sent)); }
    void close();

private:
    enum class State { unauthenticated, authenticated, refused, agent, over };

    void receive(std::span<const std::byte> bytes);
    [[nodiscard]] Status shake_hands(std::span<const std::byte>& bytes);
    [[nodiscard]] Status take_plain(std::vector<std::byte> plain);
    void deliver();
    void stream_ended(std::optional<Error> error);
    void fail(Error error);

    IoThread& io_;
    std::string address_;
    int socket_;  // reader_'s, which keeps it open
    State state_ = State::unauthenticated;
    std::optional<wire::JoinHandshake> handshake_;
    std::optional<wire::Encryption> encryption_;
    Events events_;
    AgentChannel::Handlers handlers_;
    bool is_attached_ = false;
    std::vector<std::byte> kept_;  // plain text that nobody has taken yet
    std::size_t peeked_ = 0;       // of kept_: what `facts_reader_` has seen
    wire::FrameReader<wire::FromAgent> facts_reader_;
    std::optional<Error> error_;  // why it is over
    Timer timeout_;
    Timer soon_;
    PipeWriter writer_;
    PipeReader reader_;
};

/// The control stream of an agent that joined.
class JoinChannel final : public AgentChannel {
public:
    explicit JoinChannel(std::unique_ptr<JoinConnection> connection)
        : connection_(std::move(connection)) {}

    void open(Handlers handlers) override { connection_->attach(std::move(handlers)); }
    void send(std::vector<std::byte> bytes) override { connection_->send(bytes); }
    void when_sent(std::function<void()> sent) override { connection_->when_sent(std::move(sent)); }
    void close() override { connection_->close(); }
    [[nodiscard]] bool wants_job_end() const noexcept override { return true; }

private:
    std::unique_ptr<JoinConnection> connection_;
};

}  // namespace hvd::launch
