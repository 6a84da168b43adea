// SPDX-License-Identifier: Apache-2.0
//
// The seam between the engine and everything that can move bytes. A backend is one folder next to
// this file; the engine sees this header and each folder's factory.hpp.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/device_tensors.hpp"
#include "collectives/process_set.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::coll {

/// A collective in flight.
class Work {
public:
    /// enqueued: the task is on a device's stream, in order with what its lane started before. Only
    ///           backends of devices say so.
    enum class Progress { pending, enqueued, done };

    virtual ~Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    /// Does what can be done now. Never blocks. After `done` or an Error the buffers belong to the
    /// caller again.
    [[nodiscard]] virtual Result<Progress> poll() = 0;

    /// Once `enqueued`: the device's event that completes with the task. nullptr on the host.
    [[nodiscard]] virtual SharedEvent event() const { return nullptr; }

    /// While `pending`: the places of members that have not begun the task, ascending, as far as
    /// this rank can tell. Empty: it cannot, or there are none.
    [[nodiscard]] virtual std::vector<int> missing() const { return {}; }

protected:
    Work() = default;
};

/// A process set's ordered way through one backend. All its members start the same tasks in the
/// same order. Communicators of different sets are independent of each other: they are in flight at
/// the same time, start in any order on each rank, and none waits for the members of another.
///
/// Thread: progress lock.
/// Errors: a failed task leaves the communicator broken: every later call returns Errc::aborted. A
///         backend never logs an Error that it returns.
class Communicator {
public:
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    /// Begins the task. The buffers in `task` stay valid until the returned Work is done; the task
    /// itself is copied. While Backend::max_in_flight Works are under way the caller polls the
    /// first one to its end before it starts another. The Work ends before the communicator does.
    [[nodiscard]] Result<std::unique_ptr<Work>> start(const Task& task);

    /// Fails whatever is in flight and everything later with `cause`. The owner calls it when a
    /// member has died; the next poll of a Work returns the cause.
    void abort(const Error& cause);

    /// Whether it reads and writes the task's segments itself. If not, the engine packs them into
    /// `workspace` as they travel, and passes that as one segment. Never changes a result.
    [[nodiscard]] virtual bool gathers(const Task& task) const noexcept = 0;

    /// The data that the other members need before the first task, of the same size on all; empty:
    /// none. Nothing while it is being made: to be asked for again. Never blocks. May throw
    /// Exception.
    [[nodiscard]] virtual std::optional<std::vector<std::byte>> connection_info() {
        return std::vector<std::byte>();
    }

    /// Gives the data of all members, in the order of their places. May throw Exception.
    virtual void connect(std::span<const std::byte> /*infos*/) {}

    /// At least `bytes` of the communicator's memory, valid until the Work of the next `start` is
    /// done. Empty when none is free: wait for a Work first.
    [[nodiscard]] virtual std::span<std::byte> workspace(std::size_t bytes) = 0;

protected:
    /// `name` is the backend's, a literal.
    explicit Communicator(std::string_view name) noexcept : name_(name) {}

private:
    /// May throw Exception; `start` turns it into the returned Error.
    virtual std::unique_ptr<Work> do_start(const Task& task) = 0;
    virtual void do_abort(const Error& cause) = 0;

    std::string_view name_;
    bool broken_ = false;
};

/// One way to run collectives.
///
/// A backend that can sleep registers its descriptors with the Reactor it was constructed with; one
/// that cannot is polled while it has work.
///
/// Thread: created anywhere, then called with the progress lock held.
class Backend {
public:
    virtual ~Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// How well this backend fits the task: 0 means "cannot", the highest score wins.
    /// Pure: the same task and set get the same score on every member, or the ranks would diverge.
    /// It looks neither at addresses nor at the own place.
    [[nodiscard]] virtual int score(const Task& task, const ProcessSet& set) const noexcept = 0;

    /// The largest fused message that serves this backend well, in bytes.
    [[nodiscard]] virtual std::size_t fusion_bytes() const noexcept = 0;

    /// Whether it makes of a small task exactly what LocalResult makes of it, so that the engine
    /// may do that itself where the inputs have travelled another way. The same on all members.
    [[nodiscard]] virtual bool is_like_local_result() const noexcept { return false; }

    /// How many Works of one communicator may be under way at a time.
    [[nodiscard]] virtual int max_in_flight() const noexcept { return 1; }

    /// Makes the communicator of a set that this rank is a member of, for tasks whose memory is on
    /// `device` here, which the backend outlives. Never blocks and tells no peer: what it needs
    /// from the other members is made while its first Work is polled, with a deadline that counts
    /// once all members have begun it. One set has one communicator at a time for each list of its
    /// members' devices. Throws Exception when a resource is missing.
    [[nodiscard]] virtual std::unique_ptr<Communicator> open(const ProcessSet& set,
                                                             Device device) = 0;

    /// Gives memory back that is kept for the next collectives: there were none for some time.
    virtual void release_idle() noexcept {}

protected:
    Backend() = default;
};

}  // namespace hvd::coll
