// SPDX-License-Identifier: Apache-2.0
//
// The requests of a command line besides a job.
#pragma once

#include "launcher/model/host.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/model/task.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// The program should print what was built and what was found, and stop (--check-build).
struct CheckBuild {
    bool verbose = false;
    bool json = false;
};

/// The hosts of a job should be examined and no rank be started (`horovodrun doctor`). The job need
/// not give a number of ranks or a command.
struct Examine {
    LaunchRequest job;
    bool json = false;
};

/// The traces of a job should become one (`horovodrun timeline`).
struct MergeTimelines {
    std::filesystem::path folder;
    std::optional<std::filesystem::path> output{};  // unset: standard output

    friend bool operator==(const MergeTimelines&, const MergeTimelines&) = default;
};

/// The program should be a host of somebody else's job (--join).
struct JoinRequest {
    EndPoint launcher;
    std::optional<std::filesystem::path> token_file;  // unset: standard input
    std::string name;                                 // empty: the hostname
    int slots = 0;                                    // 0: as many as the host has
    std::chrono::milliseconds timeout{600'000};
};

/// Another launcher has started us in the place of its task: the command should become it.
struct RunTask {
    Task task;
    LaunchRequest job;
};

/// The command is an mpirun, in whose line we should stand before its program.
struct RunLine {
    std::vector<std::string> line;
};

}  // namespace hvd::launch
