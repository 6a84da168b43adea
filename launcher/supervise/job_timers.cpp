// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_timers.hpp"

#include "launcher/net/io_thread.hpp"

#include <utility>

namespace hvd::launch {

JobTimers::JobTimers(IoThread& io, JobMachine& machine, std::function<void(JobAction)> perform)
    : io_(io),
      machine_(machine),
      perform_(std::move(perform)),
      start_(io),
      job_(io),
      exit_(io),
      grace_(io) {}

void JobTimers::limit_start(Deadline deadline) {
    start_.set(deadline, [this] { perform_(machine_.on_start_limit()); });
}

void JobTimers::limit_job(std::chrono::milliseconds span) {
    job_.set(io_.in(span), [this] { perform_(machine_.on_time_limit()); });
}

void JobTimers::limit_exit(std::chrono::milliseconds span) {
    exit_.set(io_.in(span), [this] { perform_(machine_.on_exit_limit()); });
}

void JobTimers::limit_grace(std::chrono::milliseconds span) {
    grace_.set(io_.in(span), [this] { perform_(machine_.on_grace_over()); });
}

void JobTimers::limit_teardown(int rank) {
    teardowns_.emplace_back(io_).set(io_.in(JobMachine::kTeardownTime),
                                     [this, rank] { perform_(machine_.on_teardown_over(rank)); });
}

void JobTimers::cancel_all() {
    start_.cancel();
    job_.cancel();
    exit_.cancel();
    grace_.cancel();
    teardowns_.clear();
}

}  // namespace hvd::launch
