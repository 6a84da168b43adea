// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <cstdint>
#include <memory>

#include <sys/types.h>
#include <termios.h>

namespace hvd::launch {

/// The terminal that is horovodrun's standard input, whose modes horovodrun changes and restores.
/// A child process restores them where horovodrun is killed. Thread: io.
class UserTerminal final {
public:
    /// Errors: unavailable, where its modes cannot be read or no process can be had.
    [[nodiscard]] static Result<std::unique_ptr<UserTerminal>> open();
    ~UserTerminal();
    UserTerminal(const UserTerminal&) = delete;
    UserTerminal& operator=(const UserTerminal&) = delete;

    /// From now on every key is a byte to read, and nothing is echoed or added to what is written.
    /// False: nothing was changed, because it is in the hands of another job of its shell.
    [[nodiscard]] bool make_raw();

    /// Keys are edited and make signals again as in the beginning; what is written is still shown
    /// as it is, because output of the raw time may be on its way.
    void restore_keys();

    /// Back to all modes that it had in the beginning.
    void restore();

    struct Size {
        std::uint16_t rows = 0;
        std::uint16_t columns = 0;
    };
    [[nodiscard]] static Size size();

    /// Whether no other job of its shell reads what is typed there.
    [[nodiscard]] static bool is_in_foreground();

private:
    UserTerminal(const termios& modes, UniqueFd alive, pid_t watcher)
        : modes_(modes), alive_(std::move(alive)), watcher_(watcher) {}

    termios modes_;
    UniqueFd alive_;  // a pipe whose end tells the watcher that horovodrun has ended
    pid_t watcher_;
};

}  // namespace hvd::launch
