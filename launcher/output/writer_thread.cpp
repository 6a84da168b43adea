// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/writer_thread.hpp"

#include "launcher/output/start_thread.hpp"

#include <utility>

namespace hvd::launch {
namespace {

/// The bytes that a sink gets between two flushes: large enough to make system calls rare, small
/// enough to keep the processor's cache warm.
constexpr std::size_t kFlushBytes = std::size_t{128} << 10;

}  // namespace

WriterThread::WriterThread(std::unique_ptr<Sink> sink, std::function<void()> on_progress, Mode mode)
    : sink_(std::move(sink)), on_progress_(std::move(on_progress)), mode_(mode) {}

WriterThread::~WriterThread() = default;

void WriterThread::push(Chunk chunk) {
    if (mode_ == Mode::in_place) {
        sink_->take(chunk);
        sink_->flush();
        return;
    }
    pending_bytes_ += chunk.bytes.size();
    ++pending_chunks_;
    bool was_empty = false;
    {
        const std::lock_guard lock(mutex_);
        was_empty = queue_.empty();
        queue_.push_back(std::move(chunk));
    }
    if (!thread_) {
        thread_ = start_thread([this](const std::stop_token& stop) { run(stop); });
    } else if (was_empty) {
        filled_.notify_one();
    }
}

bool WriterThread::is_idle() {
    // In this order: the writer counts down first and looks at the wish then, so one of the two
    // sees the other.
    idle_wanted_ = true;
    if (pending_chunks_ != 0) {
        return false;
    }
    idle_wanted_ = false;
    return true;
}

void WriterThread::run(const std::stop_token& stop) {
    std::vector<Chunk> batch;
    while (true) {
        Sink::TimePoint taken_at;
        {
            std::unique_lock lock(mutex_);
            if (!wait_for_chunks(lock, stop) && stop.stop_requested()) {
                return;  // nothing is left
            }
            batch.swap(queue_);
            taken_at = Sink::Clock::now();
        }
        write(batch);
        batch.clear();
        if (const auto due = sink_->deadline(); due && *due <= taken_at) {
            sink_->time_passed(taken_at);
            sink_->flush();
        }
    }
}

/// Until there is a chunk, the sink has something to do, or the thread is asked to stop. Whether
/// there is a chunk.
bool WriterThread::wait_for_chunks(std::unique_lock<std::mutex>& lock,
                                   const std::stop_token& stop) {
    const auto is_filled = [this] { return !queue_.empty(); };
    const auto due = sink_->deadline();
    return due ? filled_.wait_until(lock, stop, *due, is_filled)
               : filled_.wait(lock, stop, is_filled);
}

void WriterThread::write(const std::vector<Chunk>& batch) {
    std::size_t chunks = 0;
    std::size_t bytes = 0;
    for (const auto& chunk : batch) {
        sink_->take(chunk);
        ++chunks;
        bytes += chunk.bytes.size();
        if (bytes >= kFlushBytes) {
            sink_->flush();
            done(std::exchange(chunks, 0), std::exchange(bytes, 0));
        }
    }
    if (chunks != 0) {
        sink_->flush();
        done(chunks, bytes);
    }
}

void WriterThread::done(std::size_t chunks, std::size_t bytes) {
    pending_bytes_ -= bytes;
    const bool is_idle = (pending_chunks_ -= chunks) == 0;
    unreported_bytes_ += bytes;
    if (unreported_bytes_ >= kProgressStep || (is_idle && idle_wanted_.exchange(false))) {
        unreported_bytes_ = 0;
        on_progress_();
    }
}

}  // namespace hvd::launch
