// SPDX-License-Identifier: Apache-2.0
//
// Everything that the user asked for, checked and typed: cli/ makes it, and no text in it is split
// or parsed after that. A struct for each concern, which its folder takes.
#pragma once

#include "collectives/base/env.hpp"
#include "launcher/model/host.hpp"
#include "launcher/model/line_prefix.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// A whole job of Slurm, or a component of a heterogeneous one.
struct SlurmComponent {
    std::vector<std::string> nodes;
    bool has_gpus_by_task = false;  // a node of a step has GPUs for the step's tasks there
};

/// An allocation of Slurm.
struct SlurmJob {
    std::string id;
    bool is_heterogeneous = false;
    std::vector<SlurmComponent> components;
};

struct HostOptions {
    std::vector<Host> list;             // empty: this machine
    bool slots_are_cpus = false;        // of `list`: where a host has GPUs, these make its slots
    std::optional<SlurmJob> slurm_job;  // srun starts the agents of its nodes
    std::optional<EndPoint> listen;     // agents connect here by themselves
    std::optional<int> join_count;      // so many of them
    std::optional<std::filesystem::path> join_token_file;
    std::optional<PortSpan> ports;  // for all that listens: horovodrun, MASTER_PORT, the ranks
};

/// How the GPUs of a host are given to its ranks.
enum class GpuBind : std::uint8_t { index, env, none };
enum class BindTo : std::uint8_t { share, none };  // an even share of the CPUs, or no pinning

/// More than these are a typing error, unless the user insists.
inline constexpr std::size_t kMostRanksPerCpu = 64;

struct BindingOptions {
    GpuBind gpus = GpuBind::index;
    int gpus_per_rank = 1;
    bool may_lack_gpus = true;  // the user has not asked for that number: no GPU is no error
    bool share_gpus = false;
    BindTo cpus = BindTo::share;
    bool may_oversubscribe = true;
    bool may_overload = false;  // --oversubscribe: also with more than kMostRanksPerCpu
};

// Variables of the runtime that flags set directly; the runtime reads them where it connects.
inline constexpr std::string_view kNetworkInterfaces = "HOROVOD_NETWORK_INTERFACES";
inline constexpr std::string_view kPortRange = "HOROVOD_PORT_RANGE";

struct EnvironmentOptions {
    Environment set{};                // --env K=V
    std::vector<std::string> pass{};  // --env-pass GLOB
    bool is_clean = false;            // only --env and --env-pass reach the ranks
    Environment tunables{};           // HOROVOD_* from flags and config file
};

struct InputOptions {
    std::optional<int> rank;             // reads horovodrun's standard input
    bool is_for_all = false;             // every rank does. Neither: the ranks read /dev/null
    std::optional<int> terminal_rank{};  // reads it too, with a terminal for all its streams
};

struct OutputOptions {
    std::optional<std::filesystem::path> folder{};
    LinePrefix prefix{};
    std::optional<std::vector<int>> show{};  // ranks whose output reaches the console
    std::optional<std::vector<int>> bars{};  // ranks whose progress bars move there
};

/// The output of horovodrun itself.
struct ReportOptions {
    std::optional<std::filesystem::path> summary{};
    int error_lines = 20;  // of the culprit's standard error
    std::optional<std::filesystem::path> launch_trace{};
    bool is_verbose = false;
    std::vector<std::string> notes{};  // a person should read these before the start
};

/// How the failure of a rank concerns the others.
enum class OnFailure : std::uint8_t {
    stop,  // they are stopped
    wait,  // they go on; the job has failed all the same when the last of them has ended
};

struct Limits {
    std::chrono::milliseconds start_timeout{30'000};
    std::optional<std::chrono::milliseconds> timeout{};  // for the whole job
    std::optional<std::int64_t> allocation_end{};        // in seconds of Unix time
    std::chrono::milliseconds grace{10'000};             // between TERM and KILL

    /// How long a host may be silent before it is lost, and its agent without a word of us before
    /// it ends its ranks. 0: for ever.
    std::chrono::milliseconds lease{30'000};

    OnFailure on_failure = OnFailure::stop;

    /// From the first end of a rank that stops nobody (exit 0; under OnFailure::wait any end) until
    /// the others must have ended too; then the job ends as by `timeout`.
    std::optional<std::chrono::milliseconds> exit_timeout{};
};

/// How other hosts are reached. What is unset is ~/.ssh/config's to say.
struct SshOptions {
    std::optional<int> port{};                        // for hosts that have none of their own
    std::optional<std::filesystem::path> identity{};  // this private key and no other
    std::optional<std::filesystem::path> config{};    // instead of ~/.ssh/config, as `ssh -F`
    int concurrency = 512;                            // hosts that are being connected to at a time
    std::vector<std::string> remote_shell{};  // run with host and line instead of SSH; empty: SSH
    std::vector<std::string> wrap{};          // starts the agent: {"apptainer", "exec", "img.sif"}

    friend bool operator==(const SshOptions&, const SshOptions&) = default;
};

/// --mpi: an mpirun starts the ranks; --jsrun: jsrun does.
struct MpiOptions {
    bool is_wanted = false;  // either
    bool is_jsrun = false;
    std::string program = "mpirun";           // HOROVOD_MPIRUN, or jsrun
    std::vector<std::string> args{};          // after our own
    std::vector<std::string> binding_args{};  // instead of no binding
    std::vector<std::string> interfaces{};    // names and networks, for MPI's own connections
    bool is_tcp = false;
    std::vector<Host> allocation{};  // of jsrun: all its hosts in their order, with their slots

    friend bool operator==(const MpiOptions&, const MpiOptions&) = default;
};

enum class OutputFormat : std::uint8_t { text, json };

struct DryRunOptions {
    bool is_wanted = false;
    OutputFormat format = OutputFormat::text;
    std::optional<std::filesystem::path> facts_file{};  // plan from recorded facts, start nothing
};

/// Sources: flag, then config file, then environment, then default.
struct LaunchRequest {
    std::optional<int> processes;  // unset: as many as the hosts have slots
    std::vector<std::string> command;
    HostOptions hosts;
    BindingOptions binding;
    EnvironmentOptions environment;
    InputOptions input;
    OutputOptions output;
    ReportOptions report;
    Limits limits;
    SshOptions ssh;
    MpiOptions mpi;
    DryRunOptions dry_run;
    std::optional<int> caller;  // a socket to the program that called horovod.run
};

}  // namespace hvd::launch
