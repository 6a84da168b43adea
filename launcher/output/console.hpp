// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output/rank_printer.hpp"
#include "launcher/output/writer_thread.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace hvd::launch {

/// The state that the writer of a console shows the io thread while it works.
struct ConsoleEvents {
    /// Counts finished writes, which distinguishes a slow reader from one that does not read.
    std::atomic<std::uint64_t> writes{0};

    /// Writing failed with this errno; the stream's output is dropped from then on, and of both
    /// where they are one: that counts as standard output. Called once per place, on the writer's
    /// thread.
    std::function<void(OutputStream, int)> on_error;
};

/// horovodrun's own standard output and standard error. Lines of different ranks never mix within a
/// line; see RankPrinter for unfinished ones. Where a rank has the terminal, what others write gets
/// the carriage returns that a raw terminal needs. The descriptors stay blocking: O_NONBLOCK would
/// leak into other processes that share them.
class ConsoleSink final : public Sink {
public:
    ConsoleSink(RankPrinter printer,
                ConsoleEvents& events,
                std::optional<int> terminal_rank = std::nullopt);

    void take(const Chunk& chunk) override;
    void flush() override;
    [[nodiscard]] std::optional<TimePoint> deadline() const override;
    void time_passed(TimePoint now) override;

private:
    struct Place {
        int fd = -1;
        bool needs_returns = false;
        bool is_broken = false;
    };

    [[nodiscard]] Place& place(OutputStream stream) {
        return places_.at(static_cast<std::size_t>(stream));
    }
    void turn_to(OutputStream stream);
    void add_returns(std::size_t begin);
    void break_off(int error_number);

    ConsoleEvents& events_;  // outlives the sink
    std::array<Place, 2> places_{Place{STDOUT_FILENO}, Place{STDERR_FILENO}};
    RankPrinter printer_;
    std::optional<int> terminal_rank_;
    TimePoint::duration blocked_{};             // in writes, when no line can be seen to end
    OutputStream current_ = OutputStream::out;  // whose text is in text_
    std::string text_;
};

/// Whether both streams lead to one file, pipe or terminal. Then one writer must serve both, or
/// their lines would mix.
[[nodiscard]] bool console_streams_are_one();

}  // namespace hvd::launch
