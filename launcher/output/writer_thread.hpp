// SPDX-License-Identifier: Apache-2.0
//
// The queue between the io thread, which must not block, and destinations whose writes may: a
// terminal that is stopped, a full pipe, a slow disk.
#pragma once

#include "launcher/output/chunk.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace hvd::launch {

/// Where chunks end up. Thread: the writer's.
class Sink {
public:
    virtual ~Sink() = default;
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;

    using Clock = std::chrono::steady_clock;
    using TimePoint = Clock::time_point;

    /// May buffer the bytes until `flush`.
    virtual void take(const Chunk& chunk) = 0;
    virtual void flush() = 0;

    /// When `time_passed` has something to do, if no chunk comes before.
    [[nodiscard]] virtual std::optional<TimePoint> deadline() const { return std::nullopt; }

    /// All chunks that were pushed until `now` have been taken. `flush` follows.
    virtual void time_passed(TimePoint /*now*/) {}

protected:
    Sink() = default;
};

/// Gives chunks to a sink, in order, on a thread that starts with the first of them.
/// Members are the io thread's unless they say otherwise.
class WriterThread final {
public:
    /// The thread that calls the sink: a writer thread, or, for a sink that never waits, the
    /// pushing thread.
    enum class Mode : std::uint8_t { threaded, in_place };

    /// `on_progress` is called on the writer's thread: each time kProgressStep bytes are done, and
    /// whenever nothing is left and the io thread has asked for that.
    WriterThread(std::unique_ptr<Sink> sink,
                 std::function<void()> on_progress,
                 Mode mode = Mode::threaded);

    /// Writes what is queued, then ends the thread: blocks as long as the sink does.
    ~WriterThread();
    WriterThread(const WriterThread&) = delete;
    WriterThread& operator=(const WriterThread&) = delete;

    /// Throws Exception where the thread cannot start.
    void push(Chunk chunk);

    [[nodiscard]] bool has_started() const noexcept { return thread_.has_value(); }

    /// Output that was pushed and not yet written, in bytes. Thread: any.
    [[nodiscard]] std::size_t pending_bytes() const noexcept { return pending_bytes_.load(); }

    /// Whether everything was written. Asks for `on_progress` once it is.
    [[nodiscard]] bool is_idle();

    /// At most half of the least window of an agent, which else would wait for credit for ever.
    static constexpr std::size_t kProgressStep = std::size_t{32} << 10;

private:
    void run(const std::stop_token& stop);
    [[nodiscard]] bool wait_for_chunks(std::unique_lock<std::mutex>& lock,
                                       const std::stop_token& stop);
    void write(const std::vector<Chunk>& batch);
    void done(std::size_t chunks, std::size_t bytes);

    std::unique_ptr<Sink> sink_;  // the writer's, once the thread runs
    std::function<void()> on_progress_;
    Mode mode_;
    std::mutex mutex_;
    std::condition_variable_any filled_;
    std::vector<Chunk> queue_;  // guarded by mutex_
    std::atomic<std::size_t> pending_bytes_{0};
    std::atomic<std::size_t> pending_chunks_{0};
    std::atomic<bool> idle_wanted_{false};
    std::size_t unreported_bytes_ = 0;  // the writer's
    std::optional<std::jthread> thread_;
};

}  // namespace hvd::launch
