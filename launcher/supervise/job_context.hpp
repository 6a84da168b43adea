// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/output/writer_thread.hpp"

#include <functional>
#include <memory>
#include <string>

namespace hvd::launch {

class LauncherLog;
class LaunchTrace;

/// The values that a JobStart leaves to the run.
struct RunStart {
    Deadline deadline;  // when every rank must have started
    std::string notes;  // of the agents to the user, in whole lines; to be printed
};

/// The destinations of a job's output besides the console. The pointed-to objects outlive the job;
/// null: not wanted.
struct JobContext {
    LauncherLog* log = nullptr;  // with a folder for output: what horovodrun says goes there too
    UniqueFd caller{};           // of horovod.run, if that has started the job
    LaunchTrace* trace = nullptr;
    std::function<Status()> on_all_started{};          // with `trace`: once it is complete
    std::function<std::unique_ptr<Sink>()> console{};  // of a simulation, as of OutputPlaces
};

}  // namespace hvd::launch
