// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/lent_terminal.hpp"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace hvd::launch {

Status check_terminal(const LaunchRequest& request) {
    const auto& rank = request.input.terminal_rank;
    if (!rank || request.dry_run.is_wanted) {
        return ok();
    }
    const auto number = std::to_string(*rank);
    const auto refuse = [&](const std::string& why) {
        return Error{Errc::invalid_argument, "--pty " + number + ": " + why};
    };
    for (const auto& [name, fd] :
         {std::pair{"input", STDIN_FILENO}, std::pair{"output", STDOUT_FILENO}}) {
        if (::isatty(fd) == 0) {
            return refuse(std::string("horovodrun's standard ") + name +
                          " is no terminal; start it in a terminal, or write --stdin " + number);
        }
    }
    if (!UserTerminal::is_in_foreground()) {
        return refuse("horovodrun is in the background of its terminal; start it without &");
    }
    return ok();
}

LentTerminal::LentTerminal(IoThread& io,
                           AgentFleet& fleet,
                           std::size_t host,
                           int rank,
                           std::unique_ptr<UserTerminal> terminal)
    : io_(io), fleet_(fleet), host_(host), rank_(rank), terminal_(std::move(terminal)) {
    tell_size();
}

Result<std::unique_ptr<LentTerminal>> LentTerminal::lend(IoThread& io,
                                                         AgentFleet& fleet,
                                                         std::size_t host,
                                                         int rank) {
    HVD_TRY(auto terminal, UserTerminal::open());
    return std::unique_ptr<LentTerminal>(
        new LentTerminal(io, fleet, host, rank, std::move(terminal)));
}

void LentTerminal::begin() {
    is_lent_ = true;
    take();
}

void LentTerminal::end() {
    is_lent_ = false;
    input_.reset();
    terminal_->restore_keys();
}

/// In the background, where another job of the shell has the terminal, not before SIGCONT.
void LentTerminal::take() {
    if (terminal_->make_raw() && !input_) {
        input_.emplace(io_, fleet_, std::vector{host_});
    }
}

void LentTerminal::taken(std::size_t host, std::uint64_t bytes) {
    if (input_) {
        input_->taken(host, bytes);
    }
}

void LentTerminal::on_signal(int signal) {
    if (signal == SIGTSTP) {
        input_.reset();
        terminal_->restore();
    } else if (signal == SIGCONT && is_lent_) {
        take();
    }
    if (signal == SIGWINCH || signal == SIGCONT) {
        tell_size();
    }
}

void LentTerminal::tell_size() {
    const auto size = UserTerminal::size();
    fleet_.send(host_, wire::WindowSize{.rows = size.rows, .columns = size.columns});
}

}  // namespace hvd::launch
