// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/timer.hpp"
#include "launcher/remote/bootstrap/transport.hpp"
#include "launcher/remote/command/child_streams.hpp"

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// A program that carries the streams to the host: the system's ssh, or what --remote-shell names.
/// Its standard error is kept, as the words for its end.
class CommandTransport final : public Transport {
public:
    CommandTransport(IoThread& io, std::vector<std::string> argv, const sigset_t& signal_mask);

    /// Kills the program, with its process group, if it has not ended.
    ~CommandTransport() override;
    CommandTransport(const CommandTransport&) = delete;
    CommandTransport& operator=(const CommandTransport&) = delete;

    void open(Handlers handlers) override;
    void send(std::vector<std::byte> bytes) override;
    void when_sent(std::function<void()> sent) override;
    void close() override;
    [[nodiscard]] std::string progress() const override;

private:
    void finish_if_over();
    void finish();

    IoThread& io_;
    std::vector<std::string> argv_;
    sigset_t signal_mask_;
    Handlers handlers_;
    std::string errors_;  // its last words
    std::optional<Error> error_;
    int wait_status_ = 0;
    bool output_over_ = false;
    bool errors_over_ = false;
    bool process_over_ = false;
    bool is_told_ = false;
    Timer timeout_;
    std::unique_ptr<ChildStreams> streams_;
};

}  // namespace hvd::launch
