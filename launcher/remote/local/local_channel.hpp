// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "launcher/net/descriptors.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/local/agent_process.hpp"
#include "launcher/remote/starter.hpp"

#include <sys/types.h>

namespace hvd::launch {

/// Two pipes to a child process and the child itself. The child is the agent's guard: while it
/// lives, it may still be ending processes of the job, so the channel ends only after it.
class LocalChannel final : public AgentChannel {
public:
    LocalChannel(IoThread& io, AgentProcess agent);

    /// Kills a child that has not ended.
    ~LocalChannel() override;
    LocalChannel(const LocalChannel&) = delete;
    LocalChannel& operator=(const LocalChannel&) = delete;

    void open(Handlers handlers) override;
    void send(std::vector<std::byte> bytes) override;
    void when_sent(std::function<void()> sent) override;
    void close() override;
    [[nodiscard]] bool is_on_this_machine() const noexcept override { return true; }

private:
    void stream_ended(std::optional<Error> error);
    void reap();
    void kill() const;
    void finish_if_over();
    void tell();

    PipeWriter writer_;
    PipeReader reader_;
    ReadableWatch process_;
    Timer timeout_;
    Deadline closed_ = Deadline::in({});  // up to which a guard that was told to end may take
    pid_t pid_;
    Handlers handlers_;
    bool has_spoken_ = false;  // else it has started nothing, and is not waited for
    bool stream_over_ = false;
    bool process_over_ = false;
    bool told_ = false;
    std::optional<Error> error_;
};

}  // namespace hvd::launch
