// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks' output goes: to the console, to files, or to both.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/output/console.hpp"
#include "launcher/output/rank_files.hpp"
#include "launcher/output/writer_thread.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The destinations of a job's output besides the console, and the settings of its lines.
struct OutputPlaces {
    int ranks = 0;
    std::vector<RankPlace> places{};     // by rank
    std::optional<int> input_rank{};     // reads standard input: its prompts do not wait
    std::optional<int> terminal_rank{};  // has our terminal: printed as it is
    LauncherLog* log = nullptr;  // with a folder: what we say goes there too; outlives the output

    /// In a simulation: makes what takes all that is for the console, without waiting.
    std::function<std::unique_ptr<Sink>()> console = nullptr;
};

/// Thread: io. Nothing in here blocks but the destructor, which writes what is left.
class JobOutput final {
public:
    /// All are called on threads that write, not on the io thread.
    struct Events {
        std::function<void()> on_progress;  // see WriterThread
        std::function<void(OutputStream, int)> on_console_error;
        RankFiles::Events files;
    };

    /// Errors: invalid_argument, when a file of `options.folder` cannot be written.
    [[nodiscard]] static Result<std::unique_ptr<JobOutput>> create(const OutputOptions& options,
                                                                   const OutputPlaces& places,
                                                                   const Events& events);

    /// Bytes of a rank, or as of rank `places.ranks` of the program that has started them.
    void submit(Chunk chunk);

    /// Its last lines are over.
    void rank_ended(int rank);

    /// A whole line, or several, of horovodrun itself, on standard error after what came before,
    /// and `logged` in the log.
    void say(std::string_view text, std::string_view logged);

    /// Output that was submitted and that the slowest destination has not written yet. It counts
    /// against the agents' credit, which bounds it.
    [[nodiscard]] std::size_t pending_bytes() const noexcept;

    /// Whether everything was written. If not, asks for `on_progress` once it is.
    [[nodiscard]] bool is_idle();

    struct Stuck {
        bool console = false;
        bool files = false;
    };

    /// Waits no more for the places that have not taken what was queued for them, and drops what
    /// comes for them from now on. Says which they were: their threads may be blocked for good, so
    /// the process must end by _exit.
    [[nodiscard]] Stuck abandon_stuck();

    /// Bytes that standard output has not taken yet, and the number of finished writes, which
    /// distinguishes a slow reader from one that does not read. Standard error counts too where
    /// both are one.
    [[nodiscard]] std::size_t stdout_pending_bytes() const noexcept { return out_.pending_bytes(); }
    [[nodiscard]] std::uint64_t stdout_writes() const noexcept { return out_events_.writes.load(); }

private:
    /// One writer for one place.
    struct Place {
        std::unique_ptr<WriterThread> writer;  // empty: nothing is written here
        bool is_abandoned = false;

        void push(Chunk chunk) const;
        [[nodiscard]] std::size_t pending_bytes() const noexcept;
        [[nodiscard]] bool is_idle() const;
        [[nodiscard]] bool abandon_if_stuck();
    };

    JobOutput(const OutputOptions& options, const OutputPlaces& places, const Events& events);

    [[nodiscard]] Place& console_for(OutputStream stream) noexcept;

    std::vector<bool> shown_;
    ConsoleEvents out_events_;
    ConsoleEvents err_events_;
    Place out_;
    Place err_;    // empty where the other console writes this stream too
    Place files_;  // empty without a folder
    bool has_log_ = false;
};

}  // namespace hvd::launch
