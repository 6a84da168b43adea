// SPDX-License-Identifier: Apache-2.0
//
// The command line with which an MPI, or jsrun, starts the ranks of a plan.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/mpi/flavor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::mpi {

struct HostRanks {
    std::string host;
    int ranks = 0;

    friend bool operator==(const HostRanks&, const HostRanks&) = default;
};

/// The resources of a host with ranks, as jsrun's resource file lists them.
struct ResourceHost {
    int number = 0;                           // in the allocation, from 1
    int slots = 0;                            // of the allocation
    std::vector<int> cpus;                    // all that may be used there
    std::vector<int> gpus;                    // that its ranks own or choose from
    std::vector<std::vector<int>> rank_cpus;  // of each rank; empty: all of the host

    friend bool operator==(const ResourceHost&, const ResourceHost&) = default;
};

/// Which ranks read standard input.
enum class Input : std::uint8_t { none, one, all };

/// The parts of a line: the user's options, and the job's plan.
struct Job {
    Kind kind = Kind::open_mpi_4;
    MpiOptions options{};
    SshOptions ssh{};                      // of mpirun's own ssh
    std::vector<HostRanks> hosts{};        // in the order of their ranks, none with 0
    bool is_oversubscribed = false;        // some host has more ranks than slots
    std::vector<std::string> variables{};  // names whose values every rank gets
    Input input = Input::none;
    int input_rank = 0;
    std::vector<ResourceHost> resources{};  // jsrun only: a host's for each of `hosts`
    std::string resource_file{};            // jsrun only: where it may read one
    std::vector<std::string> command{};     // what each rank runs, its shim first
};

struct Line {
    std::vector<std::string> argv;
    Environment env;              // set for the MPI's own program
    std::string resource_text{};  // what `resource_file` is to hold, or empty

    friend bool operator==(const Line&, const Line&) = default;
};

/// No value of a variable is in it, and no fabric is turned off. Errors: invalid_argument, when
/// this MPI cannot be told what was asked.
[[nodiscard]] Result<Line> make_line(const Job& job);

}  // namespace hvd::launch::mpi
