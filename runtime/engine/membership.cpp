// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/membership.hpp"

#include <span>
#include <utility>

namespace hvd::rt {

void Membership::TimedMutex::lock() {
    std::unique_lock lock(mutex_);
    unlocked_.wait(lock, [this] { return !is_locked_; });
    is_locked_ = true;
}

bool Membership::TimedMutex::try_lock_until(Deadline::Clock::time_point end) {
    std::unique_lock lock(mutex_);
    if (!unlocked_.wait_until(lock, end, [this] { return !is_locked_; })) {
        return false;
    }
    is_locked_ = true;
    return true;
}

void Membership::TimedMutex::unlock() {
    const std::lock_guard lock(mutex_);
    is_locked_ = false;
    unlocked_.notify_one();
}

Membership::~Membership() {
    forget_pending();
}

Result<AddedSet> Membership::add(const std::vector<int>& ranks, Deadline deadline) {
    const auto size = engine_.process_sets().world().set.size();
    Signature wanted;
    wanted.kind = Kind::add_process_set;
    wanted.root = -1;
    for (const int rank : ranks) {
        if (rank < 0 || rank >= size) {
            return Error{
                Errc::invalid_argument,
                "rank " + std::to_string(rank) + " is not in a world of " + std::to_string(size)};
        }
        wanted.splits.push_back(rank);
    }
    Lock lock(mutex_, std::defer_lock);
    HVD_TRY(const auto turn, take_turn(lock, wanted, deadline));
    if (turn == Turn::of_another) {
        return AddedSet{.outcome = Outcome::in_progress};
    }
    if (turn == Turn::of_new) {
        if (const auto known = engine_.process_sets().find_equal(wanted.splits)) {
            return AddedSet{.id = *known, .is_new = false};
        }
        HVD_TRY_STATUS(begin("process_set.add", std::move(wanted)));
    }
    const auto outcome = engine_.wait(*pending_, deadline);
    if (outcome && *outcome == Outcome::in_progress) {
        return AddedSet{.outcome = Outcome::in_progress};
    }
    const int id = pending_->signature.root;
    forget_pending();
    if (!outcome && id < 0) {
        return outcome.error();
    }
    return AddedSet{.id = id, .is_new = outcome.has_value()};
}

Result<Outcome> Membership::remove(int id, Deadline deadline) {
    if (id == 0) {
        return Error{Errc::invalid_argument, "process set 0 is the world, which stays"};
    }
    Signature wanted;
    wanted.kind = Kind::remove_process_set;
    wanted.root = id;
    Lock lock(mutex_, std::defer_lock);
    HVD_TRY(const auto turn, take_turn(lock, wanted, deadline));
    if (turn == Turn::of_another) {
        return Outcome::in_progress;
    }
    if (turn == Turn::of_new) {
        HVD_TRY_STATUS(engine_.process_sets().ranks(id));
        HVD_TRY_STATUS(begin("process_set.remove", std::move(wanted)));
    }
    auto outcome = engine_.wait(*pending_, deadline);
    if (!outcome || *outcome == Outcome::finished) {
        forget_pending();
    }
    return outcome;
}

Result<Membership::Turn> Membership::take_turn(Lock& lock,
                                               const Signature& wanted,
                                               Deadline deadline) {
    if (const auto end = deadline.end(); !end) {
        lock.lock();
    } else if (!lock.try_lock_until(*end)) {
        return Turn::of_another;
    }
    if (pending_ == nullptr) {
        return Turn::of_new;
    }
    if (wanted_ == wanted) {
        return Turn::of_the_same;
    }
    // How it ends is of no concern here: its caller has given it up.
    const auto outcome = engine_.wait(*pending_, deadline);
    if (outcome && *outcome == Outcome::in_progress) {
        return Turn::of_another;
    }
    forget_pending();
    return Turn::of_new;
}

Status Membership::begin(std::string name, Signature wanted) {
    Request request;
    request.name = std::move(name);
    request.signature = wanted;
    request.has_out = true;  // nothing to allocate
    HVD_TRY(const auto operations, engine_.submit({&request, 1}));
    pending_ = operations.front();
    wanted_ = std::move(wanted);
    return ok();
}

/// One that has not ended ends by itself.
void Membership::forget_pending() {
    if (auto* const change = std::exchange(pending_, nullptr)) {
        (void)tickets_.release(*change);
    }
}

}  // namespace hvd::rt
