// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/timer.hpp"
#include "launcher/remote/ssh/ssh_session.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch::ssh {

/// Standard input, output and error of the line that runs in a session's channel. What is sent
/// earlier waits for the line. Thread: io.
class LineStreams final {
public:
    /// `on_silence`: `pump` has something to say though nothing has come.
    LineStreams(IoThread& io, std::function<void()> on_silence);

    enum class Pumped { nothing, some, ended, failed };

    /// Moves what can be moved at once. `ended`: the other side will send no more that matters.
    [[nodiscard]] Pumped pump(SshSession& session,
                              const std::function<void(std::span<const std::byte>)>& on_bytes);

    /// False where nothing is to be sent, or no longer.
    [[nodiscard]] bool send(std::vector<std::byte> bytes);

    /// Calls it once all that was sent is on its way; now, where nothing waits.
    void when_sent(std::function<void()> sent);

    /// Ends the input behind all bytes that were sent.
    void close() noexcept { is_closing_ = true; }

    /// Another line is to run: what the last one has said, and that it has ended, is forgotten.
    void begin_line();

    /// Nothing moves any more: calls what waits for its bytes to be sent.
    void stop();

    /// The last words on the program's standard error.
    [[nodiscard]] const std::string& errors() const noexcept { return errors_; }

private:
    /// The call that must be repeated before anything else is sent.
    enum class Pending { nothing, read, write };

    [[nodiscard]] Pumped take(SshSession& session,
                              const std::function<void(std::span<const std::byte>)>& on_bytes);
    [[nodiscard]] Pumped give(SshSession& session);
    void await_last_words();
    void report_sent();

    std::function<void()> on_silence_;
    Pending pending_ = Pending::nothing;
    std::deque<std::vector<std::byte>> queue_;
    std::size_t front_sent_ = 0;  // bytes of its first
    std::vector<std::function<void()>> sent_calls_;
    bool is_closing_ = false;
    bool is_end_sent_ = false;
    Timer last_words_;
    bool has_exited_ = false;  // the program of the line
    bool is_silent_ = false;   // for long enough since then
    std::string errors_;
};

}  // namespace hvd::launch::ssh
