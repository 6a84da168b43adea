// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/wire/messages.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::launch::agent {

/// Forwards the output of the ranks from their pipes, or a terminal, to the control stream, in the
/// pieces in which it was read. It reads only as much as the launcher has granted; a rank that
/// writes more waits.
///
/// The pipes have an epoll descriptor of their own, so that one call stops or resumes all of them.
class OutputPump final {
public:
    OutputPump(EventLoop& loop, ControlStream& control);

    /// The write ends for a new rank, or nothing, with errno: the process is out of descriptors.
    struct Ends {
        UniqueFd out;
        UniqueFd err;
    };
    [[nodiscard]] std::optional<Ends> open(int rank);

    /// The output of a rank that writes to a terminal; this is the other end, which does not block.
    /// False, with errno: the process is out of descriptors.
    [[nodiscard]] bool add_terminal(int rank, UniqueFd user_end);

    /// Forwards what the rank had written when it ended, as far as there is credit or room for last
    /// output. Its pipes stay open for what its descendants write.
    void rank_ended(int rank);

    /// Nothing is read before the first call.
    void grant(std::uint64_t bytes);

    /// No process of the job is left: forwards the rest in the pipes and closes them, even if other
    /// processes hold their other ends. Calls with too little credit have to be repeated.
    void finish();

    /// The launcher has no room for more at the moment.
    [[nodiscard]] bool is_held_up() const noexcept { return credit_ <= 0; }

    [[nodiscard]] bool is_finished() const noexcept { return open_pipes_ == 0; }

private:
    struct Pipe {
        int rank = 0;
        OutputStream stream = OutputStream::out;
        UniqueFd fd;
        bool is_terminal = false;
        bool is_enlarged = false;
    };

    [[nodiscard]] UniqueFd open_pipe(int rank, OutputStream stream);
    [[nodiscard]] bool add(std::unique_ptr<Pipe> pipe);
    void read_ready();
    /// Reads once, at most `limit` bytes and `room` beyond the credit; returns how many. Closes the
    /// pipe at its end.
    std::size_t read(Pipe& pipe, std::size_t limit, std::uint64_t room = 0);
    void close(Pipe& pipe);
    void drain(Pipe& pipe, std::uint64_t room = 0);
    void listen();

    EventLoop& loop_;
    ControlStream& control_;
    UniqueFd ready_;  // epoll over the pipes
    std::vector<std::unique_ptr<Pipe>> pipes_;
    std::size_t open_pipes_ = 0;
    std::int64_t credit_ = 0;  // below zero where last output went out on top
    bool is_listening_ = false;
    static constexpr std::size_t kBusyPipeBytes = std::size_t{256}
                                                  << 10;  // also what one read takes
    std::unique_ptr<std::array<std::byte, kBusyPipeBytes>> buffer_;
};

}  // namespace hvd::launch::agent
