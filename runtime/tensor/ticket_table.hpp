// SPDX-License-Identifier: Apache-2.0
//
// Where results leave the engine: every submitted operation has a ticket, callers wait on it, the
// engine completes it.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "runtime/tensor/name_table.hpp"
#include "runtime/tensor/observer.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/operation_pool.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace hvd::rt {

/// Moves results to the devices of their callers.
///
/// Thread: progress lock.
class ResultCarrier {
public:
    virtual ~ResultCarrier() = default;
    ResultCarrier(const ResultCarrier&) = delete;
    ResultCarrier& operator=(const ResultCarrier&) = delete;

    /// True: the result is on its way, and TicketTable::complete is called again once it is there.
    /// False: that is impossible, and the operation says why.
    [[nodiscard]] virtual bool carry(Operation& operation) = 0;

protected:
    ResultCarrier() = default;
};

/// The operations of all callers, from their making to the release of their tickets.
///
/// Thread: any, unless a method says otherwise.
class TicketTable {
public:
    TicketTable() = default;
    ~TicketTable() = default;
    TicketTable(const TicketTable&) = delete;
    TicketTable& operator=(const TicketTable&) = delete;

    /// Makes operations of `requests`, which are left without their strings and shapes. The names
    /// are not pending yet. Errors: invalid_argument (an empty name).
    [[nodiscard]] Result<std::vector<Operation*>> create(std::span<Request> requests);

    /// Makes the operations and their names pending, all or none; also again those of a plan that
    /// have ended. Errors: invalid_argument that names the one that is pending already.
    [[nodiscard]] static Status claim(std::span<Operation* const> operations);

    /// Errors: invalid_argument for what is no ticket, or no longer one.
    [[nodiscard]] Result<Operation*> find(Ticket ticket) const { return pool_.find(ticket); }

    /// Also true of an operation that was never submitted.
    [[nodiscard]] static bool is_done(const Operation& operation) noexcept;

    /// The same, and also true while its callback runs: its result, or its error, is there.
    [[nodiscard]] static bool has_ended(const Operation& operation) noexcept;

    /// Of an operation that is done: its error, or that of its callback.
    [[nodiscard]] static Status outcome(const Operation& operation);

    /// Whether it is done, and without an error.
    [[nodiscard]] static bool has_succeeded(const Operation& operation) noexcept;

    /// Ends one operation: success, or failure if `operation.failed`. The name may be used again
    /// from here on. The result of a device's tensor is carried there first. Thread: progress lock.
    void complete(Operation& operation);

    /// The observer of what happens to operations, and of their ends in `complete`; nullptr: none.
    /// Thread: progress lock.
    void set_observer(Observer* observer) noexcept { observer_ = observer; }
    [[nodiscard]] Observer* observer() const noexcept { return observer_; }

    /// Of the results of devices' tensors; nullptr: there are none. Thread: progress lock.
    void set_carrier(ResultCarrier* carrier) noexcept { carrier_ = carrier; }

    /// Where tensors stay that are not on the host; nullptr: nowhere. Set before the first call of
    /// another thread.
    void set_devices(coll::DeviceTensors* devices) noexcept { devices_ = devices; }

    /// Operations completed so far. Thread: any.
    [[nodiscard]] std::uint64_t completed() const noexcept {
        return completed_.load(std::memory_order_relaxed);
    }

    /// Sleeps until the operation is done (true) or the deadline passes (false).
    [[nodiscard]] static bool wait(const Operation& operation, Deadline deadline) noexcept;

    /// Wakes those who sleep in `wait_any`. Called once after a batch of `complete`. Thread:
    /// progress lock.
    void wake_any() noexcept;

    /// Changes after every batch of completions; read it before looking for finished tickets.
    [[nodiscard]] std::uint32_t batches() const noexcept {
        return batches_.load(std::memory_order_acquire);
    }

    /// Sleeps until `batches` differs from `seen` or the deadline passes. May wake early.
    void wait_any(std::uint32_t seen, Deadline deadline) noexcept;

    /// Calls `callback` once when the operation ends; now, if it has ended. An error of the
    /// callback becomes the operation's, or, where it had ended before, is returned here.
    /// Errors: invalid_argument when it has a callback.
    [[nodiscard]] static Status on_complete(Operation& operation, Callback callback);

    /// Gives the ticket back; before its end it is only marked. Errors: invalid_argument when it
    /// was given back before.
    [[nodiscard]] Status release(Operation& operation);

    /// The same of many tickets, of which it takes all that it can: the first error.
    [[nodiscard]] Status release(std::span<const Ticket> tickets);

    /// Gives back operations that were never submitted, or those of a plan.
    /// Errors: invalid_argument while one of them is pending.
    [[nodiscard]] Status discard(std::span<Operation* const> operations);

    /// Ranks no longer have a cache id for the name. Thread: progress lock.
    void uncache(Name& name);

    /// A number for what ranks have agreed on about operations of this table, never the same twice,
    /// and never 0. Thread: progress lock.
    [[nodiscard]] std::uint64_t next_agreement() noexcept { return ++agreements_; }

    /// An operation by which a rank that has joined takes part in `signature` of `set`: its input
    /// is neutral, its result is thrown away, and completing it gives it back. Throws
    /// std::bad_alloc. Thread: progress lock.
    [[nodiscard]] Operation& create_neutral(const Signature& signature, ProcessSetEntry& set);

    /// Moves its tensor, which has been filled, to its device among the agreed ones; leaves it on
    /// the host where there are none. Throws Exception. Thread: progress lock.
    void move_neutral(Operation& operation) const;

private:
    void join_groups(std::span<const Request> requests,
                     std::span<Operation* const> operations);  // needs mutex_
    void put_back(Operation& op) noexcept;                     // needs mutex_
    static void clear(Operation& op) noexcept;
    void recycle(Operation& op) noexcept;  // takes mutex_

    class Unfinished;

    std::mutex mutex_;
    NameTable names_;     // guarded by mutex_
    OperationPool pool_;  // guarded by mutex_, but for `find`

    Observer* observer_ = nullptr;
    ResultCarrier* carrier_ = nullptr;
    coll::DeviceTensors* devices_ = nullptr;
    std::atomic<std::uint64_t> completed_{0};
    std::uint64_t agreements_ = 0;  // Thread: progress lock
    std::uint64_t announced_ = 0;   // completed_ at the last wake_any. Thread: progress lock
    std::atomic<std::uint32_t> batches_{0};
    std::atomic<std::uint32_t> any_sleepers_{0};
};

}  // namespace hvd::rt
