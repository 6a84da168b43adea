// SPDX-License-Identifier: Apache-2.0
//
// What the agent does with each message of the launcher, but for questions.
#include "launcher/agent/clock.hpp"
#include "launcher/agent/first_process.hpp"
#include "launcher/agent/session.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// Before that ranks start, and the shortest jobs are over: nothing else is to cost them time.
constexpr auto kChoresAfter = std::chrono::milliseconds(50);

}  // namespace

void Session::on(wire::Start& start) {
    if (ranks_) {
        note("a second Start was ignored");
        return;
    }
    auto& plan = start.plan;
    marks_.job_id = start.job.id;
    is_local_ = plan.starter == kLocalStarter;
    grace_ = plan.grace;
    answers_.start_is_near(plan);
    make_room(setup_.given, descriptors_for(plan));
    socket_.emplace(loop_, control_, start.job.id, [this](int rank) {
        if (brought_) {
            return brought_->pid_of(rank);
        }
        return ranks_ ? ranks_->pid_of(rank) : std::nullopt;
    });
    if (auto listening = socket_->listen(plan.agent_socket); !listening) {
        // Ranks that need it will say so; others run without.
        note("the agent cannot be reached by its ranks: " + listening.error().message);
    }
    if (!plan.shim_socket.empty()) {
        bring(start);
    }
    for (const auto& spec : plan.ranks) {
        if (plan.stdin_all || plan.stdin_rank == spec.rank) {
            input_.add_reader(spec.rank);
        }
    }
    has_first_rank_ = !plan.ranks.empty() && plan.ranks.front().rank == 0;
    chores_at_ = std::chrono::steady_clock::now() + kChoresAfter;
    const auto shared = whole_environment(take_common_environment(start.job, plan), plan);
    ranks_.emplace(shared, std::move(start.job), std::move(plan), setup_.given,
                   Ranks::Surroundings{.cgroup = cgroup_ ? cgroup_->folder() : -1,
                                       .control = control_,
                                       .output = output_,
                                       .input = input_,
                                       .oom = oom_,
                                       .socket = *socket_});
}

/// The ranks come by themselves; what is left to start is mpirun, if it is for this host to do.
void Session::bring(wire::Start& start) {
    auto& plan = start.plan;
    brought_.emplace(start.job, plan,
                     BroughtRanks::Surroundings{.loop = loop_,
                                                .control = control_,
                                                .output = output_,
                                                .oom = oom_,
                                                .socket = *socket_});
    if (auto listening = brought_->listen(plan.shim_socket); !listening) {
        note("no rank can come to the agent: " + listening.error().message);
    }
    is_bare_launcher_ = plan.ranks.empty() && !plan.launchers.empty();
    plan.ranks = std::move(plan.launchers);
    has_launcher_ = !plan.ranks.empty();
    if (has_launcher_) {
        plan.inherits_env = plan.inherits_env || start.job.is_env_clean;  // it needs a PATH, a HOME
        launcher_name_ = plan.ranks.front().argv.front();
    }
}

void Session::on(const wire::Signal& signal) {
    if (ranks_ && is_stop_signal(signal.number)) {
        ranks_->cancel_starts();  // they would not hear it, and run until they are killed
        ending_.ask(grace_, std::chrono::steady_clock::now());
    }
    if (ranks_ && setup_.is_slurm_step) {
        step_signals_.ask(signal.number, std::chrono::steady_clock::now(), grace_);
    } else if (ranks_) {
        signal_ranks(signal.number);
    }
}

void Session::on(const wire::Stop& stop) {
    perform(
        ending_.stop(std::chrono::milliseconds(stop.grace_ms), std::chrono::steady_clock::now()));
}

void Session::on(const wire::Input& input) {
    input_.feed(input.bytes);
}

void Session::on(const wire::Credit& credit) {
    output_.grant(credit.bytes);
}

void Session::on(const wire::PutDone& done) {
    if (socket_) {
        socket_->on(done);
    }
}

void Session::on(const wire::GetValue& value) {
    if (socket_) {
        socket_->on(value);
    }
}

void Session::on(wire::Ended& ended) {
    job_end_ = std::move(ended);
}

void Session::on(const wire::PeerLost& lost) {
    if (socket_) {
        socket_->on(lost);
    }
}

void Session::on(const wire::Ping& ping) {
    const auto heard_ns = steady_clock_ns();
    build_.is_in_use();
    const bool is_other_term = ping.lease_ms != lease_.term().count();
    lease_.renew(std::chrono::milliseconds(ping.lease_ms), std::chrono::steady_clock::now());
    show_lease();
    if (is_other_term && ::getppid() == setup_.guard) {
        (void)::kill(setup_.guard, kLeaseSignal);
    }
    control_.send(wire::Pong{
        .asked_ns = ping.asked_ns, .heard_ns = heard_ns, .answered_ns = steady_clock_ns()});
}

}  // namespace hvd::launch::agent
