// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/rank_terminal.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

namespace hvd::launch::agent {
namespace {

/// Backspace takes a whole character of UTF-8, as in the terminals that people have.
void expect_utf8(int terminal) {
    termios modes{};
    if (::tcgetattr(terminal, &modes) == 0) {
        modes.c_iflag |= IUTF8;
        (void)::tcsetattr(terminal, TCSANOW, &modes);
    }
}

}  // namespace

void RankTerminal::resize(const wire::WindowSize& size) {
    size_ = size;
    if (user_end_) {
        winsize window{};
        window.ws_row = size.rows;
        window.ws_col = size.columns;
        (void)::ioctl(user_end_.get(), TIOCSWINSZ, &window);
    }
}

std::optional<SpawnFailure> RankTerminal::open() {
    const auto fail = [](std::string step) {
        return SpawnFailure{.step = std::move(step), .error_number = errno};
    };
    // Without a controlling terminal, a process like this one gets the first that it opens.
    constexpr int kFlags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    user_end_.reset(::posix_openpt(kFlags | O_NONBLOCK));
    std::array<char, 64> name{};
    if (!user_end_ || ::grantpt(user_end_.get()) != 0 || ::unlockpt(user_end_.get()) != 0 ||
        ::ptsname_r(user_end_.get(), name.data(), name.size()) != 0) {
        return fail("open /dev/ptmx for --pty");
    }
    rank_end_.reset(::open(name.data(), kFlags));
    if (!rank_end_) {
        return fail("open " + std::string(name.data()) + " for --pty");
    }
    expect_utf8(rank_end_.get());
    resize(size_);
    return std::nullopt;
}

UniqueFd RankTerminal::user_end() const {
    return UniqueFd(::fcntl(user_end_.get(), F_DUPFD_CLOEXEC, 0));
}

void RankTerminal::close() {
    user_end_.reset();
    rank_end_.reset();
}

}  // namespace hvd::launch::agent
