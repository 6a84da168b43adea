// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/descriptors.hpp"

#include <csignal>
#include <functional>
#include <memory>

namespace hvd::launch {

class IoThread;

/// Holds back the signals that horovodrun handles, from before any thread starts to the end of the
/// process. No disposition is changed: what was ignored when horovodrun started (nohup, a shell's
/// background job) stays ignored, and children inherit what horovodrun was given.
class BlockedSignals final {
public:
    BlockedSignals();
    ~BlockedSignals() = default;
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

    /// As horovodrun was given it.
    [[nodiscard]] const sigset_t& original_mask() const noexcept { return original_; }

private:
    sigset_t original_{};
};

/// Gives the blocked signals to the io thread as they come.
class SignalSource final {
public:
    /// Throws Exception when the process is out of descriptors.
    SignalSource(IoThread& io, const BlockedSignals& blocked, std::function<void(int)> on_signal);

private:
    void listen();
    void read();

    ReadableWatch watch_;
    std::function<void(int)> on_signal_;
};

/// INT, TERM, HUP and QUIT end the job; USR1, USR2, TSTP and CONT are only passed on; WINCH tells
/// of the terminal's size.
[[nodiscard]] bool is_stop_request(int signal) noexcept;

/// Stops this process as SIGTSTP would have done, had it not been held back. Returns when
/// continued.
void stop_self();

}  // namespace hvd::launch
