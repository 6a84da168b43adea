// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/ready_watch.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/bootstrap/transport.hpp"
#include "launcher/remote/ssh/host_connector.hpp"
#include "launcher/remote/ssh/line_streams.hpp"
#include "launcher/remote/ssh/sign_in.hpp"
#include "launcher/remote/ssh/ssh_session.hpp"
#include "launcher/remote/ssh/target.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch::ssh {

/// One connection to one host through libssh2, and the line that runs there; others after it, as
/// long as somebody asks for the next. It ends with
/// Errc::unsupported, before it has linked, where the system's ssh might do better. Thread: io.
class SshTransport final : public Transport {
public:
    SshTransport(IoThread& io,
                 SshTarget target,
                 std::shared_ptr<KeyRing> keys,
                 std::vector<std::string> lines);
    ~SshTransport() override;

    /// Calls it with the words for each step up to the shell.
    void tell_steps(std::function<void(std::string_view)> tell) { tell_step_ = std::move(tell); }
    SshTransport(const SshTransport&) = delete;
    SshTransport& operator=(const SshTransport&) = delete;

    void open(Handlers handlers) override;
    void send(std::vector<std::byte> bytes) override;
    void when_sent(std::function<void()> sent) override;
    void close() override;
    [[nodiscard]] std::string progress() const override;
    [[nodiscard]] bool try_next_line() override;

private:
    enum class State {
        resolve,
        connect,
        handshake,
        host_key,
        sign_in,
        open_channel,
        execute,
        running,
        closing,
        over
    };

    [[nodiscard]] static std::string_view words(State state);
    [[nodiscard]] static std::string_view remedy(State state);
    void enter(State state);
    void connect();
    void connected(Result<std::unique_ptr<ReadyWatch>> socket);
    void connect_again();
    void wake();
    void drive();
    [[nodiscard]] bool advance();
    [[nodiscard]] bool after(Step step, State next);
    [[nodiscard]] bool take_handshake(Step step);
    [[nodiscard]] bool check_host_key();
    [[nodiscard]] bool pump();
    [[nodiscard]] std::string route() const;
    [[nodiscard]] std::string silence(const std::string& span) const;
    void fail(Errc code, const std::string& reason);
    void finish(std::optional<Error> error);

    const SshTarget target_;
    std::shared_ptr<KeyRing> keys_;  // shared by all transports and the starter
    std::vector<std::string> lines_;
    std::size_t line_ = 0;
    bool is_line_over_ = false;  // and the connection still stands
    Handlers handlers_;
    std::function<void(std::string_view)> tell_step_;  // may be empty
    State state_ = State::resolve;
    std::chrono::steady_clock::time_point entered_at_;
    Timer limit_;
    Timer soon_;
    HostConnector connector_;
    std::unique_ptr<ReadyWatch> socket_;
    std::unique_ptr<SshSession> session_;  // after the socket, which it uses
    std::unique_ptr<SignIn> sign_in_;
    LineStreams streams_;
};

}  // namespace hvd::launch::ssh
