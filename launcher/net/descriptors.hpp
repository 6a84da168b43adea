// SPDX-License-Identifier: Apache-2.0
//
// Pipes and other descriptors on the io thread.
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/base/unique_fd.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hvd::launch {

class IoThread;

/// Reads a pipe or socket as fast as it fills. Thread: io.
class PipeReader final {
public:
    struct Handlers {
        std::function<void(std::span<const std::byte>)> on_bytes;  // valid during the call
        std::function<void(std::optional<Error>)> on_end;  // end of file, or why reading failed
    };

    /// `fd` becomes non-blocking; nobody else may share its file description.
    PipeReader(IoThread& io, UniqueFd fd);
    ~PipeReader();
    PipeReader(const PipeReader&) = delete;
    PipeReader& operator=(const PipeReader&) = delete;

    void start(Handlers handlers);

private:
    struct State;

    // Shared with the read under way, which outlives a reader that is destroyed meanwhile.
    std::shared_ptr<State> state_;
};

/// Writes a pipe or socket in order, never blocking. Thread: io.
class PipeWriter final {
public:
    /// `fd` becomes non-blocking; nobody else may share its file description.
    PipeWriter(IoThread& io, UniqueFd fd);
    ~PipeWriter();
    PipeWriter(const PipeWriter&) = delete;
    PipeWriter& operator=(const PipeWriter&) = delete;

    /// After a failed write everything more is dropped: the reader's end says why.
    void send(std::vector<std::byte> bytes);

    /// Calls `sent` once nothing is queued: at once, or later from the loop.
    void when_sent(std::function<void()> sent);

    /// Closes the descriptor. What is still queued is dropped.
    void close();

private:
    struct State;

    // Shared with the write under way, which outlives a writer that is destroyed meanwhile.
    std::shared_ptr<State> state_;
};

/// Says when a descriptor can be read, and leaves reading it to the caller. It becomes
/// non-blocking; nobody else may share its file description. Thread: io.
class ReadableWatch final {
public:
    ReadableWatch(IoThread& io, UniqueFd fd);
    ~ReadableWatch();
    ReadableWatch(const ReadableWatch&) = delete;
    ReadableWatch& operator=(const ReadableWatch&) = delete;

    /// Calls `readable` once.
    void wait(std::function<void()> readable);

    [[nodiscard]] int fd() const noexcept;

private:
    struct State;

    // Shared with the wait under way, which outlives a watch that is destroyed meanwhile.
    std::shared_ptr<State> state_;
};

}  // namespace hvd::launch
