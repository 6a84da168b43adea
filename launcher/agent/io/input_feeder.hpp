// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/io/event_loop.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace hvd::launch::agent {

/// horovodrun's standard input, to the rank or ranks that read it. The bytes are kept once, until
/// every reader has taken them; a reader that does not read holds up the others only when the
/// launcher stops sending, never the agent.
class InputFeeder final {
public:
    explicit InputFeeder(EventLoop& loop) : loop_(loop) {}

    /// Before any byte arrives: this rank is a reader. Throws Exception when the process is out of
    /// descriptors.
    void add_reader(int rank);

    /// This rank is a reader of what comes from now on, at a terminal whose other end this is.
    void add_terminal(int rank, UniqueFd user_end);

    /// The descriptor to give to the rank, or none if it is no reader.
    [[nodiscard]] UniqueFd take_read_end(int rank);

    void rank_ended(int rank);

    /// No bytes mean the end.
    void feed(std::span<const std::byte> bytes);

    /// How many bytes every reader has taken since the last call.
    [[nodiscard]] std::uint64_t take_progress();

private:
    struct Reader {
        UniqueFd read_end;  // until the rank has it
        UniqueFd fd;        // none when it is closed
        std::uint64_t position = 0;
        bool is_waiting = false;
    };

    void write(Reader& reader);
    void close(Reader& reader);
    void discard_taken();

    EventLoop& loop_;
    std::map<int, Reader> readers_;
    std::vector<std::byte> kept_;
    std::uint64_t kept_from_ = 0;  // the position of kept_[0] in the whole input
    std::uint64_t reported_ = 0;
    bool is_at_end_ = false;
};

}  // namespace hvd::launch::agent
