// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/supervise/job_machine.hpp"

#include <chrono>
#include <functional>
#include <list>

namespace hvd::launch {

class IoThread;

/// The time limits of a job whose ranks are started. Each one that passes is an event of the job
/// machine, whose action goes to `perform`. Thread: io.
class JobTimers final {
public:
    JobTimers(IoThread& io, JobMachine& machine, std::function<void(JobAction)> perform);

    void limit_start(Deadline deadline);
    void all_have_started() { start_.cancel(); }
    void limit_job(std::chrono::milliseconds span);
    void limit_exit(std::chrono::milliseconds span);
    void limit_grace(std::chrono::milliseconds span);

    /// The rank has reported its exception and is to end by itself.
    void limit_teardown(int rank);

    /// No process of the job is left.
    void cancel_all();

private:
    IoThread& io_;
    JobMachine& machine_;
    std::function<void(JobAction)> perform_;
    Timer start_;
    Timer job_;
    Timer exit_;
    Timer grace_;
    std::list<Timer> teardowns_;
};

}  // namespace hvd::launch
