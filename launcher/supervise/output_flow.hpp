// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/output/job_output.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

class IoThread;

/// The way of output from the agents to the places where it is written: lets agents send only as
/// much as these places take, says when nobody reads, and knows when all is written. Thread: io.
class OutputFlow final {
public:
    struct Events {
        std::function<void()> on_progress;        // perhaps all is written now
        std::function<void()> on_console_closed;  // standard output has no reader any more
    };

    /// Errors: invalid_argument, when a file cannot be written.
    [[nodiscard]] static Result<std::unique_ptr<OutputFlow>> create(IoThread& io,
                                                                    AgentFleet& fleet,
                                                                    const OutputOptions& options,
                                                                    const OutputPlaces& places,
                                                                    Events events);

    void submit(std::size_t host, Chunk chunk);

    /// Some of its output may still come, where an agent had no credit left. Once that is over its
    /// last line is printed, even without a line end.
    void rank_ended(int rank);

    /// No output comes any more, from any rank.
    void all_ended();

    /// A line of horovodrun's own; its prefix and line end are added.
    void say(std::string_view sentence);

    /// Whole lines, as they are; `logged` instead where they are kept.
    void say_as_is(std::string_view text) { say_as_is(text, text); }
    void say_as_is(std::string_view text, std::string_view logged);

    /// Whether everything was written. If not, `on_progress` follows.
    [[nodiscard]] bool is_idle();

    /// After the deadline no place is waited for any longer.
    void limit(Deadline deadline);

    /// Drops what consoles and files have not taken and all that comes for those.
    void abandon_stuck();
    [[nodiscard]] bool is_console_abandoned() const noexcept { return is_console_abandoned_; }
    [[nodiscard]] bool is_folder_abandoned() const noexcept { return is_folder_abandoned_; }

    /// Output that was lost, in sentences.
    [[nodiscard]] const std::vector<std::string>& losses() const noexcept { return losses_; }

private:
    OutputFlow(IoThread& io, AgentFleet& fleet, int ranks, std::string folder, Events events);

    /// Whether any rank has written anything.
    [[nodiscard]] bool has_begun() const noexcept;

    /// Has a place's failure heard on the thread of `io`. Thread: any.
    void hear(std::function<void()> failure);
    void progress();
    void give_credit();
    void watch_console();
    void await_console(std::uint64_t writes, std::chrono::seconds stuck);
    void end_lines();
    void console_failed(OutputStream stream, int error_number);
    void file_failed(const std::string& text);

    IoThread& io_;
    AgentFleet& fleet_;
    int ranks_;
    std::string folder_;  // of the files
    Events events_;
    std::uint64_t window_;                       // of each agent
    std::vector<std::uint64_t> received_bytes_;  // by host
    std::vector<std::uint64_t> credited_bytes_;
    std::vector<std::string> losses_;
    std::atomic<int> unheard_ = 0;  // failures on their way here
    std::vector<int> ended_ranks_;  // whose last line may still be open
    bool is_watching_ = false;
    bool is_console_abandoned_ = false;
    bool is_folder_abandoned_ = false;
    Timer console_timer_;
    Timer ended_timer_;
    Timer limit_timer_;
    std::unique_ptr<JobOutput> output_;  // last: its threads call into what is above
};

}  // namespace hvd::launch
