// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/progress.hpp"

#include "runtime/engine/spinner.hpp"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <sys/epoll.h>

namespace hvd::rt {
namespace {

/// Of the time that rank 0 has for leaving: the part in which it coordinates sets of other ranks.
constexpr double kPartForOthers = 0.8;

/// Of the same time: the part in which the message about this rank's failure may reach the others.
constexpr double kPartForCause = 0.2;

}  // namespace

Progress::Progress(Setup setup,
                   TicketTable& tickets,
                   ProcessSetTable& sets,
                   Inbox<Operation*>& inbox)
    : config_(std::move(setup.config)),
      tickets_(tickets),
      inbox_(inbox),
      intake_(inbox, tickets, config_.cycle_time),
      reactor_(std::move(setup.reactor)),
      channel_(std::move(setup.channel)),
      executor_(std::move(setup.executor), tickets),
      negotiator_(
          {.channel = *channel_,
           .tickets = tickets,
           .sets = sets,
           .coordinator = std::move(setup.coordinator),
           .fusion_bytes = config_.fusion_bytes,
           .has_room = [this](const coll::ProcessSet& set) { return executor_.has_room(set.id); },
           .on_set_removed = [this](int id) { executor_.close(id); },
           .on_set_ended = [this](int id, int rank) { executor_.end(id, departure_of(rank)); },
           .on_missed = [this](int rank) { report_departure(rank); },
           .carries_payloads = executor_.is_like_local_result(sets.world().set)}),
      own_failure_(*channel_, negotiator_),
      loss_(std::move(setup.on_peer_lost)),
      ended_sets_(*channel_, executor_),
      stalls_({.limits = stall_limits(config_),
               .rank = sets.world().set.rank_at(sets.world().set.place),
               .tell = std::move(setup.on_stall),
               .blame = std::move(setup.on_stalled)},
              *channel_,
              negotiator_,
              executor_) {
    reactor_->watch(inbox_.descriptor(), EPOLLIN, [this](std::uint32_t) { inbox_.drain(); });
    channel_->watch(*reactor_);
}

/// A failure of this rank's memory or descriptors ends the world, not the process; nor does an
/// exception leave a caller with a loop half done, and others waiting for it.
template <class Action>
void Progress::guard(Action action) {
    try {
        action();
    } catch (const Exception& exception) {
        tell_and_break(exception.error());
    } catch (const std::bad_alloc&) {
        tell_and_break({Errc::internal, "out of memory"});
    } catch (const std::exception& exception) {
        tell_and_break({Errc::internal, exception.what()});
    }
}

/// By a failure of this rank: the others must not count on its part of what was agreed.
void Progress::break_here(const Error& cause) {
    if (!broken_) {
        break_with(cause);
        is_cut_off_ = true;
    }
}

/// The same, by a failure that only this rank knows of.
void Progress::tell_and_break(const Error& cause) {
    if (!broken_ && !is_leaving_) {
        own_failure_.tell(cause);
    }
    break_here(cause);
}

bool Progress::step(Urgency urgency) {
    bool has_moved = false;
    guard([&] {
        has_moved = take(urgency);
        auto negotiated = negotiate();
        if (negotiated) {
            has_moved = *negotiated || has_moved;
        } else {
            break_here(negotiated.error());
        }
        has_moved = executor_.step() || has_moved;
        if (executor_.broken() && !broken_) {
            (void)look_for_failures();  // which rank has died says more than which connection ended
            tell_and_break(*executor_.broken());
            is_cut_off_ = true;  // of the collective that has failed, which others may be in
        }
        has_moved = abort_ended_sets() || has_moved || look_for_failures();
    });
    tickets_.wake_any();
    return has_moved;
}

void Progress::put(std::span<Operation* const> leaders) {
    bool is_taken = false;
    guard([&] {
        intake_.put(leaders);
        is_taken = true;
    });
    if (!is_taken) {
        fail(leaders);
    }
}

bool Progress::is_oversubscribed() {
    bool is_so = true;
    guard([&] { is_so = channel_->is_oversubscribed(); });
    return is_so;
}

void Progress::dispatch() {
    guard([&] { reactor_->dispatch(); });
}

bool Progress::take(Urgency urgency) {
    intake_.take();
    if (intake_.empty()) {
        return false;
    }
    if (broken_) {
        loss_.miss();
        fail(intake_.release());
        return true;
    }
    if (urgency == Urgency::background &&
        intake_.may_gather(negotiator_.fusion_bytes().value_or(executor_.usual_fusion_bytes()))) {
        return false;
    }
    if (auto* const observer = tickets_.observer()) {
        observer->on_cycle();
    }
    negotiator_.submit(intake_.leaders(), urgency);
    intake_.clear();
    return true;
}

Result<bool> Progress::negotiate() {
    if (broken_) {  // other ranks may yet need what was decided
        return own_failure_.is_on_its_way() ? own_failure_.look() : channel_->flush();
    }
    bool has_moved = false;
    while (!broken_) {
        ready_.clear();
        HVD_TRY(const bool more, negotiator_.step(ready_));
        has_moved = has_moved || more;
        if (!ready_.empty()) {
            execute_ready();
            break;  // started first: somebody waits for it
        }
        if (!more) {
            break;
        }
    }
    return has_moved;
}

void Progress::execute_ready() {
    if (negotiator_.inputs().empty()) {
        executor_.enqueue(ready_, negotiator_.fusion_bytes());
    } else {
        executor_.run(*ready_.front(), negotiator_.inputs());
    }
}

// ---- sleeping -----------------------------------------------------------------------------------

bool Progress::announce_sleep() {
    const bool expects = negotiator_.has_open() || executor_.is_busy();
    bool has_more = expects;
    guard([&] { has_more = look_for_stalls(expects) || has_more; });
    inbox_.set_asleep(true);
    guard([&] { channel_->about_to_sleep(expects); });
    return has_more ? step(Urgency::background) : inbox_.is_full();
}

/// True if the channel or the failures are to be looked at again.
bool Progress::look_for_stalls(bool expects) {
    if (!stalls_.is_on() || broken_ || is_leaving_) {
        return false;
    }
    if (!expects && !negotiator_.has_others_waiting()) {
        stalls_.rest();
        return false;
    }
    return stalls_.look(Deadline::Clock::now());
}

void Progress::awake() {
    inbox_.set_asleep(false);
    guard([&] { channel_->awake(); });
}

Deadline Progress::next_look() const {
    Deadline first = intake_.gathers_until();
    if (const auto look = executor_.next_look(); look.is_before(first)) {
        first = look;
    }
    for (const auto& limit : {departure_limit_, ended_sets_.next(), stalls_.next()}) {
        if (const Deadline look(limit); look.is_before(first)) {
            first = look;
        }
    }
    return first;
}

// ---- ends ---------------------------------------------------------------------------------------

bool Progress::look_for_failures() {
    if (broken_) {
        return false;
    }
    for (const auto* stalled : {&negotiator_.verdict(), &stalls_.verdict()}) {
        if (*stalled) {
            lose(**stalled);
            return true;
        }
    }
    const auto failure = channel_->peer_failure();
    if (failure && failure->error.code != Errc::aborted) {
        return end_after_death(*failure);
    }
    if (is_leaving_) {
        // With nothing under way this rank may still owe others messages.
        return failure && failure->in_flight && executor_.is_busy() && end_after_departure(failure);
    }
    if (failure || negotiator_.left_rank()) {
        return end_after_departure(failure);
    }
    departure_limit_.reset();  // of one that nobody minds any more
    return false;
}

/// A peer has left in order. What was agreed before may still be in the log, and is executed; what
/// the peer had not finished may never end, and is not waited for beyond a limit.
bool Progress::end_after_departure(const std::optional<Channel::PeerFailure>& failure) {
    if (failure && failure->in_flight && !departure_limit_) {
        departure_limit_ = Deadline::in(kDepartureLimit).end();
    }
    if (!negotiator_.left_rank()) {
        // The peer's last entries can be read by now, and perhaps could not before.
        auto negotiated = negotiate();
        if (!negotiated) {
            break_with(negotiated.error());
            return true;
        }
        if (*negotiated || !channel_->peer_failure()) {
            return *negotiated;
        }
    }
    const bool is_over = departure_limit_ && Deadline(departure_limit_).has_passed();
    if (executor_.is_busy() && !is_over) {
        return false;
    }
    const int first = negotiator_.left_rank().value_or(failure ? failure->peer : -1);
    if (!is_leaving_) {
        left_by_ = first;
    }
    lose({.peer = first, .error = departure_of(first), .in_flight = failure && failure->in_flight});
    return true;
}

/// A peer has ended without a word, which may be a return from main. What it has done its part of
/// is finished, as after a departure.
bool Progress::end_after_death(const Channel::PeerFailure& failure) {
    if (!departure_limit_) {
        departure_limit_ = Deadline::in(kDepartureLimit).end();
    }
    if (!executor_.broken() && !Deadline(departure_limit_).has_passed()) {
        auto negotiated = negotiate();  // its last entries can be read by now
        if (!negotiated) {
            break_with(negotiated.error());
            return true;
        }
        if (*negotiated || executor_.is_busy()) {
            return *negotiated;
        }
    }
    lose(failure);
    return true;
}

Error Progress::departure_of(int rank) const {
    return {Errc::aborted, channel_->describe(rank) + " has shut down"};
}

void Progress::report_departure(int rank) {
    if (!is_leaving_) {
        loss_.miss_departed(rank, departure_of(rank).message);
    }
}

bool Progress::abort_ended_sets() {
    const auto missed = ended_sets_.abort_overdue(negotiator_.departed());
    if (missed) {
        report_departure(*missed);
    }
    return missed.has_value();
}

void Progress::lose(const Channel::PeerFailure& failure) {
    const bool is_missed = negotiator_.has_open() || executor_.is_busy() || !intake_.empty();
    loss_.lose(failure);
    if (is_missed) {
        loss_.miss();
    }
    break_with(failure.error);
}

void Progress::break_with(const Error& cause) {
    if (broken_) {
        return;
    }
    broken_ = cause;
    is_broken_.store(true, std::memory_order_release);
    departure_limit_.reset();
    ended_sets_.rest();
    stalls_.rest();
    is_cut_off_ = executor_.is_busy();
    negotiator_.fail_open([this](const Operation& leader) { return describe(leader); });
    executor_.abort(cause);
    fail(intake_.release());
}

/// Why the operation fails, now that the world is broken.
Error Progress::describe(const Operation& leader) const {
    if (!left_by_) {
        return not_finished(*broken_, leader);
    }
    return {broken_->code, broken_->message + describe_need(leader, *left_by_)};
}

void Progress::fail(std::span<Operation* const> leaders) {
    for (Operation* leader : leaders) {
        fail_group(tickets_, *leader, describe(*leader));
    }
}

template <class Done>
void Progress::run_until(const Done& done, Deadline deadline) {
    Spinner spinner(channel_->is_oversubscribed());
    while (!deadline.has_passed()) {
        if (step(Urgency::background)) {
            spinner.reset();
        } else if (done()) {
            return;
        } else if (!spinner.pause()) {
            channel_->about_to_sleep(true);
            if (!step(Urgency::background) && !done()) {
                const auto look = next_look();
                (void)reactor_->wait(look.is_before(deadline) ? look : deadline);
            }
            channel_->awake();
            reactor_->dispatch();
        }
    }
}

void Progress::leave(Deadline deadline) {
    is_leaving_ = true;
    bool has_proposed = false;
    // And the log, read to its end, has no entry by which the peer left.
    const auto has_lost_peer = [&] {
        return channel_->peer_failure() && !step(Urgency::background) && channel_->peer_failure();
    };
    guard([&] {
        if (!broken_) {
            // The entries of the log before this rank's own are executed, by all ranks alike.
            // After a peer's end there may be nobody who would append that entry.
            channel_->announce_leave();
            run_until([&] { return broken_ || negotiator_.left_rank() || has_lost_peer(); },
                      negotiator_.coordinates() ? deadline.part(kPartForOthers) : deadline);
        }
        // Peers read the cause before they read that this rank has left.
        if (own_failure_.is_on_its_way()) {
            run_until([&] { return !own_failure_.is_on_its_way() || channel_->peer_failure(); },
                      deadline.part(kPartForCause));
        }
        has_proposed = negotiator_.is_proposing();
        negotiator_.fail_open(
            [](const Operation& leader) { return not_finished(shut_down_error(), leader); });
        // A slow peer must still read what was decided, even if this rank has all its results, or
        // has none because another one has left.
        run_until(
            [&] {
                (void)channel_->flush();
                return (broken_ && !left_by_) || (!executor_.is_busy() && !channel_->has_unsent());
            },
            deadline);
        channel_->leave(!executor_.is_busy() && !is_cut_off_ && !has_proposed);
    });
    break_with(shut_down_error());
    fail_rest();
}

void Progress::fail_rest() {
    intake_.take();
    fail(intake_.release());
    tickets_.wake_any();
}

}  // namespace hvd::rt
