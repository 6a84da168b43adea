// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/tensor/observer.hpp"
#include "runtime/timeline/trace_event.hpp"
#include "runtime/timeline/trace_file.hpp"
#include "runtime/timeline/trace_queue.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace hvd::rt {

/// A Chrome trace of the engine: a row for each tensor, with the activities that the original's
/// timeline shows. The engine writes into a queue and never waits; its own thread writes the
/// file. Where the queue has no room for an operation its events are left out, and the file says
/// how many operations that were.
///
/// Thread: as Observer says; destroyed without the progress lock, once no engine refers to it.
class Timeline final : public Observer {
public:
    struct Options {
        std::string path;
        bool mark_cycles = false;
        TraceOrigin origin{};  // the times are filled in
        std::size_t capacity = std::size_t{1} << 16;
    };

    /// Errors: unavailable where the file cannot be made.
    [[nodiscard]] static Result<std::unique_ptr<Timeline>> start(Options options);

    /// Writes the events that have come.
    ~Timeline() override;
    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;

    /// As it was given. Thread: any.
    [[nodiscard]] const std::string& path() const noexcept { return options_.path; }

    void on(Moment moment,
            std::span<Operation* const> operations,
            std::string_view backend) override;
    void on_announced(int process_set, std::string_view name, int rank) override;
    void on_cycle() override;

private:
    using Clock = std::chrono::steady_clock;

    /// The state of a tensor in the trace.
    struct Row {
        std::uint32_t number = 0;
        int depth = 0;  // activities that have begun
        bool is_negotiating = false;
        bool is_left_out = false;  // up to its end
    };

    Timeline(Options options, TraceFile file);

    [[nodiscard]] std::chrono::nanoseconds now() const { return Clock::now() - start_; }
    [[nodiscard]] Row& row_of(int process_set, std::string_view name);
    void advance(Row& row, Moment moment, const Operation& operation, std::string_view backend);
    void begin(Row& row, std::string activity);
    void end(Row& row, std::string about = {});
    void begin_negotiation(Row& row, std::string_view operation);
    void push(TraceEvent event);
    void wake_writer();
    void write(const std::stop_token& stop);
    void write_batch();

    Options options_;
    TraceFile file_;  // Thread: writer
    Clock::time_point start_;

    std::unordered_map<std::string, Row> rows_;  // by set and name
    std::string key_;                            // scratch
    std::chrono::nanoseconds time_{0};           // of the moment
    std::uint32_t last_row_ = 0;
    std::int64_t lost_ = 0;  // operations, not told yet
    TraceQueue queue_;

    bool has_failed_ = false;  // Thread: writer; the disk is full, or the like
    std::string text_;         // Thread: writer; scratch
    std::atomic<bool> is_asleep_{false};
    std::mutex mutex_;  // for the condition only
    std::condition_variable_any wake_;
    std::jthread writer_;  // last: it uses what is above
};

}  // namespace hvd::rt
