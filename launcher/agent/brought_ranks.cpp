// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/brought_ranks.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/unix_socket.hpp"
#include "collectives/launch_contract/mpi_job.hpp"
#include "launcher/agent/clock.hpp"
#include "launcher/agent/first_process.hpp"
#include "launcher/agent/group_signals.hpp"
#include "launcher/agent/pidfd.hpp"
#include "launcher/agent/process_table.hpp"
#include "launcher/agent/spawner.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// A shim waits for its order, so it takes it at once.
constexpr auto kPatience = std::chrono::milliseconds(500);

/// For which the buffer of a new connection always has room.
constexpr std::size_t kFirstBytes = std::size_t{16} << 10;

/// Connections of processes that are no rank; the oldest makes place for a new one.
constexpr std::size_t kMaxGuests = 4096;

/// mpirun's daemon takes in the end of a rank at once, unless it hangs or is being killed.
constexpr auto kStatusTime = std::chrono::seconds(2);

/// Before Linux 6.15 nothing tells that it has been taken in.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

BroughtRanks::BroughtRanks(JobPlan job, HostPlan plan, Surroundings surroundings)
    : job_(std::move(job)), plan_(std::move(plan)), to_(surroundings) {
    ranks_.resize(plan_.ranks.size());
    const auto text = hvd::find(job_.ranks_env, coll::kEnvMpiJob);
    const auto mpi_job = coll::decode_mpi_job(text.value_or(""));
    is_whole_job_ = mpi_job && std::cmp_equal(mpi_job->size(), ranks_.size());
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
        ranks_[index].spec = &plan_.ranks[index];
    }
}

Status BroughtRanks::listen(const std::string& name) {
    HVD_TRY(auto listening, listen_abstract(name, SOCK_STREAM));
    if (listening.is_name_taken) {
        return Error{Errc::unavailable, "socket @" + name + " is in use by another process"};
    }
    listener_ = std::move(listening.socket);
    to_.loop.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
    return ok();
}

void BroughtRanks::accept() {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
        return;
    }
    const auto peer = peer_credentials(fd.get());
    if (!peer || peer->uid != ::geteuid()) {
        return;
    }
    if (guests_.size() >= kMaxGuests) {
        close(guests_.begin()->first);
    }
    const auto id = next_guest_++;
    auto& guest = guests_[id];
    guest.socket = std::move(fd);
    guest.pid = peer->pid;
    to_.loop.watch(guest.socket.get(), EPOLLIN, [this, id](std::uint32_t) { hear(id); });
    hear(id);  // its claim has mostly come by now
}

void BroughtRanks::hear(GuestId id) {
    auto& guest = guests_.at(id);
    std::array<std::byte, 4096> bytes{};
    const auto count = ::recv(guest.socket.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count > 0) {
        guest.frames.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
        if (handle(guest)) {
            return;
        }
    } else if (guest.rank != nullptr) {
        tell_started(*guest.rank);  // its socket was closed by execve
    }
    close(id);
}

bool BroughtRanks::handle(Guest& guest) {
    while (true) {
        const auto body = guest.frames.next();
        if (!body) {
            return false;
        }
        if (!*body) {
            return true;
        }
        if (guest.rank == nullptr) {
            const auto claim = decode_claim(**body);
            if (!claim || !take_claim(guest, *claim)) {
                return false;
            }
        } else {
            const auto failure = decode_failure(**body);
            if (failure) {
                fail(*guest.rank, *failure);
            }
            return false;
        }
    }
}

bool BroughtRanks::take_claim(Guest& guest, const ShimClaim& claim) {
    ShimOrder order{.refusal = reason_to_refuse(claim)};
    auto* rank = order.refusal.empty() ? find(claim.rank) : nullptr;
    if (rank != nullptr) {
        order.env = added_environment(job_, plan_, *rank->spec);
        order.is_env_clean = job_.is_env_clean;
        if (order.is_env_clean) {
            order.env.merge(common_environment(job_, plan_));
        }
        order.cpus.assign(rank->spec->cpus.begin(), rank->spec->cpus.end());
        rank->pid = guest.pid;
        rank->pidfd = open_pidfd(guest.pid);
        const pid_t parent = parent_of(guest, claim);
        guest.rank = rank;
        watch(*rank);
        if (claim.needs_watch && parent > 0) {
            rank->killed_with = parent;
            watch_parent(parent);
        }
        if (claim.starts_in_turn) {
            make_way();
        }
    }
    return send_order(guest, order) && rank != nullptr;
}

/// With the write ends of the rank's pipes: mpirun would cut lines where writes end, and mix them.
/// Where there is no descriptor left for pipes, mpirun forwards what it writes.
bool BroughtRanks::send_order(const Guest& guest, const ShimOrder& order) {
    const auto ends =
        guest.rank != nullptr ? to_.output.open(guest.rank->spec->rank) : std::nullopt;
    std::vector<int> fds;
    if (ends) {
        fds = {ends->out.get(), ends->err.get()};
    }
    const auto deadline = Deadline::in(kPatience);
    const auto frame = encode(order);
    const auto bytes = std::span(frame);
    const auto first = std::min(bytes.size(), kFirstBytes);
    return send_packet(guest.socket.get(), bytes.first(first), fds, deadline) &&
           send_all(guest.socket.get(), bytes.subspan(first), deadline);
}

std::string BroughtRanks::reason_to_refuse(const ShimClaim& claim) const {
    const auto who = "rank " + std::to_string(claim.rank);
    if (claim.build_id != wire::build_id()) {
        return who + " was started by hvd-agent of build '" + claim.build_id +
               "', horovodrun is of build '" + std::string(wire::build_id()) +
               "': install both from one build";
    }
    if (claim.job_id != job_.id) {
        return who + " belongs to job " + claim.job_id + ", this agent to job " + job_.id;
    }
    if (!takes_more_) {
        return who + " comes too late: the job is ending";
    }
    const auto found = std::ranges::find_if(
        ranks_, [&](const Rank& rank) { return rank.spec->rank == claim.rank; });
    if (found == ranks_.end()) {
        return who + " was not planned on " + plan_.host;
    }
    if (found->pid) {
        return who + " is process " + std::to_string(*found->pid) +
               " already; each rank may be started once";
    }
    return {};
}

void BroughtRanks::fail(Rank& rank, const ShimFailure& failure) {
    if (std::exchange(rank.is_over, true)) {
        return;
    }
    to_.control.send(wire::StartFailed{.rank = rank.spec->rank,
                                       .step = failure.step,
                                       .error_number = failure.error_number,
                                       .time_ns = steady_clock_ns()});
}

void BroughtRanks::close(GuestId id) {
    const auto found = guests_.find(id);
    to_.loop.forget(found->second.socket.get());
    guests_.erase(found);
}

/// What it had still to tell comes first.
void BroughtRanks::close_guest_of(const Rank& rank) {
    const auto found = std::ranges::find_if(
        guests_, [&](const auto& entry) { return entry.second.rank == &rank; });
    if (found != guests_.end()) {
        const auto id = found->first;
        hear(id);
        if (guests_.contains(id)) {
            hear(id);  // the end after a last message
        }
        if (guests_.contains(id)) {
            close(id);
        }
    }
}

void BroughtRanks::tell_started(Rank& rank) {
    if (!rank.is_over && !std::exchange(rank.is_started, true)) {
        to_.control.send_soon(
            wire::Started{.rank = rank.spec->rank, .pid = *rank.pid, .time_ns = steady_clock_ns()});
    }
}

void BroughtRanks::watch(Rank& rank) {
    if (rank.pidfd) {
        // Once for its end, and where the kernel has it once more for its status.
        to_.loop.watch(rank.pidfd.get(), EPOLLIN | EPOLLET,
                       [this, &rank](std::uint32_t events) { look(rank, events); });
    }
}

void BroughtRanks::look(Rank& rank, std::uint32_t epoll_events) {
    if (rank.ended_ns == 0) {
        rank.ended_ns = steady_clock_ns();
    }
    const auto status = exit_status(rank.pidfd.get());
    if (status || (epoll_events & EPOLLHUP) != 0) {
        tell_end(rank, status);
    }
}

void BroughtRanks::tell_end(Rank& rank, std::optional<int> wait_status) {
    if (rank.pidfd) {
        to_.loop.forget(rank.pidfd.get());
        rank.pidfd.reset();
    }
    close_guest_of(rank);
    if (rank.is_over) {
        return;
    }
    tell_started(rank);
    rank.is_over = true;
    to_.output.rank_ended(rank.spec->rank);
    to_.socket.rank_ended(rank.spec->rank);
    const int status = wait_status.value_or(0);
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    to_.control.send(
        wire::Exited{.rank = rank.spec->rank,
                     .time_ns = rank.ended_ns == 0 ? steady_clock_ns() : rank.ended_ns,
                     .wait_status = status,
                     .induced = rank.is_induced,
                     .oom = was_killed && !rank.is_induced ? to_.oom.take_kill(*rank.pid) : "",
                     .max_rss_bytes = 0,
                     .is_unseen = !wait_status});
}

std::optional<pid_t> BroughtRanks::pid_of(int rank) const noexcept {
    for (const auto& candidate : ranks_) {
        if (candidate.spec->rank == rank && !candidate.is_over) {
            return candidate.pid;
        }
    }
    return std::nullopt;
}

bool BroughtRanks::has_any_come() const noexcept {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.pid.has_value(); });
}

bool BroughtRanks::have_all_come() const noexcept {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.pid || rank.is_over; });
}

bool BroughtRanks::is_any_running() const noexcept {
    return std::ranges::any_of(
        ranks_, [](const Rank& rank) { return rank.pid && rank.ended_ns == 0 && !rank.is_over; });
}

bool BroughtRanks::is_whole_job_over() const noexcept {
    return is_whole_job_ && have_all_come() && !is_any_running();
}

bool BroughtRanks::awaits_status(std::chrono::steady_clock::time_point now) {
    const auto oldest = steady_clock_ns() - std::chrono::nanoseconds(kStatusTime).count();
    const bool awaits = std::ranges::any_of(ranks_, [oldest](const Rank& rank) {
        return !rank.is_over && rank.ended_ns > oldest && rank.pidfd &&
               send_signal_by(rank.pidfd.get(), *rank.pid, 0);
    });
    look_again_at_ = awaits ? std::optional(now + kLookAgain) : std::nullopt;
    return awaits;
}

void BroughtRanks::reaped(pid_t pid, int wait_status) {
    const auto found = std::ranges::find_if(
        ranks_, [pid](const Rank& rank) { return rank.pid == pid && !rank.is_over; });
    if (found != ranks_.end()) {
        tell_end(*found, wait_status);
    }
}

void BroughtRanks::signal(int number) {
    for (auto& rank : ranks_) {
        if (!rank.pid || rank.is_over || rank.ended_ns != 0) {
            continue;
        }
        rank.is_induced = rank.is_induced || number == SIGTERM || number == SIGKILL;
        rank.was_asked = rank.was_asked || is_stop_signal(number);
        const bool leads_group = ::getpgid(*rank.pid) == *rank.pid;
        if (leads_group && is_for_group(number)) {
            (void)::kill(-*rank.pid, number);
        } else {
            (void)send_signal_by(rank.pidfd.get(), *rank.pid, number);
        }
    }
}

bool BroughtRanks::was_asked(pid_t group) const noexcept {
    return std::ranges::any_of(
        ranks_, [group](const Rank& rank) { return rank.pid == group && rank.was_asked; });
}

void BroughtRanks::mark_induced() noexcept {
    for (auto& rank : ranks_) {
        rank.is_induced = true;
        rank.was_asked = rank.was_asked || rank.ended_ns == 0;
    }
}

void BroughtRanks::end_all() {
    for (auto& rank : ranks_) {
        if (rank.pid && !rank.is_over) {
            tell_end(rank, rank.pidfd ? exit_status(rank.pidfd.get()) : std::nullopt);
        }
    }
}

BroughtRanks::Rank* BroughtRanks::find(int rank) noexcept {
    const auto found = std::ranges::find_if(
        ranks_, [rank](const Rank& candidate) { return candidate.spec->rank == rank; });
    return found == ranks_.end() ? nullptr : &*found;
}

}  // namespace hvd::launch::agent
