// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks' output goes: to the console, to files, or to both.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/output/console.hpp"
#include "launcher/output/writer_thread.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace hvd::launch {

struct OutputOptions {
    int ranks = 0;
    RankPrinter::Timestamps timestamps = RankPrinter::Timestamps::no;
    std::optional<std::vector<int>> show;  // only these reach the console
    std::optional<std::filesystem::path> folder;
};

/// Thread: io. Nothing in here blocks but the destructor, which writes what is left.
class JobOutput final {
public:
    /// All are called on threads that write, not on the io thread.
    struct Events {
        std::function<void()> on_progress;  // see WriterThread
        std::function<void(OutputStream, int)> on_console_error;
        std::function<void(std::string)> on_file_error;
    };

    /// Errors: invalid_argument, when a file of `options.folder` cannot be written.
    [[nodiscard]] static Result<std::unique_ptr<JobOutput>> create(const OutputOptions& options,
                                                                   const Events& events);

    /// Bytes of a rank.
    void submit(Chunk chunk);

    /// Its last lines are over.
    void rank_ended(int rank);

    /// A whole line, or several, of horovodrun itself, on standard error after what came before.
    void say(std::string_view text);

    /// Output that was submitted and not yet written where it is slowest: what the agents must not
    /// send on top of. Bounded by what they were allowed to send.
    [[nodiscard]] std::size_t pending_bytes() const noexcept;

    /// Whether everything was written. If not, asks for `on_progress` once it is.
    [[nodiscard]] bool is_idle();

    /// The same without the files: what a reader who does not read can hold up.
    [[nodiscard]] bool console_is_idle() const noexcept;

    /// Grows with every write to the console that has ended.
    [[nodiscard]] std::uint64_t console_writes() const noexcept { return console_.writes.load(); }

private:
    JobOutput(const OutputOptions& options, const Events& events);

    [[nodiscard]] WriterThread& console_for(OutputStream stream) noexcept;
    [[nodiscard]] bool is_shown(int rank) const noexcept;

    ConsoleEvents console_;
    std::vector<bool> shown_;
    std::unique_ptr<WriterThread> out_;    // both streams, where err_ is empty
    std::unique_ptr<WriterThread> err_;    // empty when both streams lead to one place
    std::unique_ptr<WriterThread> files_;  // empty without a folder
};

}  // namespace hvd::launch
