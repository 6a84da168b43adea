// SPDX-License-Identifier: Apache-2.0
//
// The seam between the engine and everything that can move bytes. A backend is one folder next to
// this file; the engine sees this header and each folder's factory.hpp.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace hvd::coll {

/// A collective in flight.
class Work {
public:
    enum class Progress { pending, done };

    virtual ~Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    /// Does what can be done now. Never blocks. After `done` or an Error the buffers belong to the
    /// caller again.
    [[nodiscard]] virtual Result<Progress> poll() = 0;

protected:
    Work() = default;
};

/// One way to run collectives over a fixed group of ranks.
///
/// A backend that can sleep registers its descriptors with the Reactor it was constructed with; one
/// that cannot is polled while it has work.
///
/// Thread: created anywhere, then called by whoever holds the engine's baton.
/// Errors: a failed task leaves the backend broken: every later call returns Errc::aborted. A
///         backend never logs an Error that it returns.
class Backend {
public:
    virtual ~Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// How well this backend fits the task: 0 means "cannot", the highest score wins.
    /// Pure: the same task gets the same score on every rank, or the ranks would diverge. It never
    /// looks at addresses.
    [[nodiscard]] virtual int score(const Task& task) const noexcept = 0;

    /// Whether it reads and writes the task's segments itself. If not, the engine packs them into
    /// `workspace` and passes that as one segment. Never changes a result.
    [[nodiscard]] virtual bool gathers(const Task& task) const noexcept = 0;

    /// Memory of its own of at least `bytes`, valid until the Work of the next `start` is done.
    /// Empty when none is free: wait for a Work first.
    [[nodiscard]] virtual std::span<std::byte> workspace(std::size_t bytes) = 0;

    /// The largest fused message that serves this backend well, in bytes.
    [[nodiscard]] virtual std::size_t fusion_bytes() const noexcept = 0;

    /// Begins the task. The buffers in `task` stay valid until the returned Work is done; the task
    /// itself is copied. A backend may allow one Work at a time; the caller then polls the first
    /// one to its end before it starts the next.
    [[nodiscard]] Result<std::unique_ptr<Work>> start(const Task& task);

    /// Fails whatever is in flight and everything later with `cause`. The owner calls it when a
    /// peer has died; the next poll of a Work returns the cause.
    void abort(const Error& cause);

protected:
    Backend() = default;

private:
    /// May throw Exception; `start` turns it into the returned Error.
    virtual std::unique_ptr<Work> do_start(const Task& task) = 0;
    virtual void do_abort(const Error& cause) = 0;

    bool broken_ = false;
};

}  // namespace hvd::coll
