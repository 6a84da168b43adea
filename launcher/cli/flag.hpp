// SPDX-License-Identifier: Apache-2.0
//
// Flags as data: what --help prints and what the command line may say come from one list.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/cli/tunables.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// What has been read so far; options.cpp completes it.
struct Draft {
    LaunchRequest request;
    Environment environment;  // horovodrun's own
    std::optional<std::string> hosts;
    std::optional<std::filesystem::path> hostfile;
    std::optional<std::filesystem::path> config_file;
    std::optional<std::chrono::milliseconds> start_timeout;
    TunableValues tunables;  // from flags
    bool is_native = false;  // --gloo, whatever the config file says
    bool is_mpi = false;     // --mpi
    bool output_format_given = false;
    bool gpus_per_rank_given = false;
    bool is_doctor = false;  // the first word was kDoctor
    bool json = false;
    JoinRequest join;  // --join and its flags
    bool is_joining = false;
};

/// One flag under all its names.
struct Flag {
    std::vector<std::string_view> names;  // with their dashes, as --help shows them
    std::string_view value_name;          // empty: takes no value
    std::string help;                     // empty: works, but --help does not show it
    /// Takes the value. Its Error says what is wrong with it; the caller adds flag and value.
    std::function<Status(Draft&, std::string_view)> apply;
};

struct FlagSection {
    std::string_view title;
    std::vector<Flag> flags;
};

// Variables of the runtime that flags set directly; the runtime reads them where it connects.
inline constexpr std::string_view kNetworkInterfaces = "HOROVOD_NETWORK_INTERFACES";
inline constexpr std::string_view kPortRange = "HOROVOD_PORT_RANGE";
inline constexpr std::string_view kStartTimeout = "HOROVOD_START_TIMEOUT";

/// Where Open MPI has what replaces its ssh.
inline constexpr std::string_view kRemoteShellVariable = "OMPI_MCA_plm_rsh_agent";

// The sections of --help, in its order.
[[nodiscard]] FlagSection job_flags();
[[nodiscard]] FlagSection host_flags();
[[nodiscard]] FlagSection placement_flags();
[[nodiscard]] FlagSection environment_flags();
[[nodiscard]] FlagSection output_flags();
[[nodiscard]] FlagSection time_flags();
[[nodiscard]] FlagSection remote_flags();
[[nodiscard]] FlagSection join_flags();
[[nodiscard]] FlagSection failure_flags();
[[nodiscard]] std::vector<FlagSection> tunable_flags();
[[nodiscard]] FlagSection mpi_flags();
[[nodiscard]] FlagSection later_flags();
[[nodiscard]] FlagSection doctor_flags();

// What concerns more than one flag at a time. Errors: invalid_argument.
[[nodiscard]] Status check_job(const Draft& draft);
[[nodiscard]] Status check_doctor(const Draft& draft);

/// Refuses ports and keys for SSH where another program reaches the hosts.
[[nodiscard]] Status check_remote_shell(const LaunchRequest& request);

/// Whether the key that -i names can be read: without it ssh would go on with others.
[[nodiscard]] Status check_identity(const LaunchRequest& request);

/// Which task of another launcher the command should become: nothing where a job of our own is
/// asked for. Errors: invalid_argument, also for a job inside of a world of several.
[[nodiscard]] Result<std::optional<Task>> find_own_task(const Draft& draft);

/// What the flags (as they were typed) may be for one task of another launcher, and in front of an
/// mpirun. Errors: invalid_argument for those that would do nothing.
[[nodiscard]] Status check_task(const Task& task, const std::vector<std::string>& spellings);
[[nodiscard]] Status check_line(std::string_view program,
                                const std::vector<std::string>& spellings);

/// Refuses two of --gloo, --mpi and --jsrun.
[[nodiscard]] Status check_controllers(const Draft& draft);

/// For --jsrun: takes the LSF job that we run in as jsrun's allocation, and `hosts` (those that the
/// user wrote) as a part of it, each with its slots there where it has none; none of them stands
/// for all. Errors: invalid_argument, outside of such a job, without jsrun in PATH, and for a host
/// or a number of slots that the job does not have.
[[nodiscard]] Status take_jsrun_allocation(Draft& draft, std::vector<Host>& hosts);

/// Completes what --mpi and --jsrun need. mpirun has the output of what it starts, so not all of
/// our flags can be obeyed. Errors: invalid_argument.
[[nodiscard]] Status check_mpi(Draft& draft);

/// A variable as the ranks will find it: of --env, else of another flag or the config file, else
/// our own.
[[nodiscard]] std::optional<std::string> variable_of_ranks(const Draft& draft,
                                                           std::string_view name);

/// Refuses what the runtime would refuse, wherever it is set.
[[nodiscard]] Status check_variables(const Draft& draft);

/// Takes the hosts of -H and the host file, else of the batch job that we run in with what else
/// that says: its end, the shell that reaches its hosts. Errors: invalid_argument, also for more
/// ranks than it has tasks.
[[nodiscard]] Status read_hosts(Draft& draft);

/// Reads the ports that the ranks will find in HOROVOD_PORT_RANGE, from wherever it is set, and
/// checks the one of --listen against them.
[[nodiscard]] Status check_ports(Draft& draft);

/// Completes what --listen was told, and checks what the flags of that section need of each other.
[[nodiscard]] Status check_join(Draft& draft);

/// The same with --join, beside which few flags (as they were typed) have a meaning.
[[nodiscard]] Status check_joining(Draft& draft, const std::vector<std::string>& spellings);

/// Says of a word (with its value, if that is in it) that it is no flag, and what to write instead.
[[nodiscard]] Error unknown_flag(const std::vector<FlagSection>& sections, std::string_view word);

/// The words behind kTimeline. Errors: invalid_argument.
[[nodiscard]] Result<Parsed> parse_timeline_command(const std::vector<std::string>& arguments);

/// The text of --help, at most 80 columns wide.
[[nodiscard]] std::string help_text(const std::vector<FlagSection>& sections);

}  // namespace hvd::launch
