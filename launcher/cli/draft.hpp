// SPDX-License-Identifier: Apache-2.0
//
// A command line while it is read, and the checks that concern more than one of its flags.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/cli/settings.hpp"
#include "launcher/cli/values.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The values of the flags that were read so far; options.cpp completes it.
struct Draft {
    LaunchRequest request{};
    Environment environment{};  // horovodrun's own
    std::optional<LinePrefix> prefix{};
    bool prefix_timestamp = false;
    std::optional<std::string> hosts{};
    std::optional<std::filesystem::path> hostfile{};
    std::optional<std::filesystem::path> config_file{};
    std::optional<std::chrono::milliseconds> start_timeout{};
    SettingValues settings{};  // from flags
    bool is_native = false;    // --gloo, whatever the config file says
    bool is_mpi = false;       // --mpi
    bool output_format_given = false;
    bool is_doctor = false;  // the first word was kDoctor
    bool is_check_build = false;
    bool json = false;
    JoinRequest join{};  // --join and its flags
    bool is_joining = false;
};

// Values of flags for fields of the request, by the struct and the field in it.

template <auto kPart, auto kField, auto kValue>
Status set_value(Draft& draft, std::string_view /*none*/) {
    draft.request.*kPart.*kField = kValue;
    return ok();
}

template <auto kPart, auto kField, int kLow, int kHigh>
Status set_number(Draft& draft, std::string_view value) {
    HVD_TRY(draft.request.*kPart.*kField, whole_number(value, kLow, kHigh));
    return ok();
}

template <auto kPart, auto kField, int kLow>
Status set_seconds(Draft& draft, std::string_view value) {
    HVD_TRY(draft.request.*kPart.*kField, seconds(value, kLow));
    return ok();
}

template <auto kPart, auto kField>
Status set_file(Draft& draft, std::string_view value) {
    return set_path(draft.request.*kPart.*kField, value);
}

inline constexpr std::string_view kStartTimeout = "HOROVOD_START_TIMEOUT";

/// Where Open MPI has the command that replaces its ssh.
inline constexpr std::string_view kRemoteShellVariable = "OMPI_MCA_plm_rsh_agent";

// Errors: invalid_argument for all that follow.
[[nodiscard]] Status check_job(const Draft& draft);
[[nodiscard]] Status check_doctor(const Draft& draft);

/// Refuses ports and keys for SSH where another program reaches the hosts.
[[nodiscard]] Status check_remote_shell(const LaunchRequest& request);

/// Whether the key that -i names can be read: without it ssh would go on with others.
[[nodiscard]] Status check_identity(const LaunchRequest& request);

/// The task of another launcher that the command should become: nothing where a new job is
/// asked for. Errors also for a job inside a world of several ranks.
[[nodiscard]] Result<std::optional<Task>> find_own_task(const Draft& draft);

/// Refuses flags (as they were typed) that would do nothing in a task of another launcher, or in
/// front of an mpirun.
[[nodiscard]] Status check_task(const Task& task, const std::vector<std::string>& spellings);
[[nodiscard]] Status check_line(std::string_view program,
                                const std::vector<std::string>& spellings);

/// Refuses two of --gloo, --mpi and --jsrun.
[[nodiscard]] Status check_controllers(const Draft& draft);

/// For --jsrun: takes the LSF job around horovodrun as jsrun's allocation, and `hosts` (those that
/// the user wrote) as a part of it, each with its slots there where it has none; no host stands for
/// all. Errors also outside of such a job, without jsrun in PATH, and for a host or a number of
/// slots that the job does not have.
[[nodiscard]] Status take_jsrun_allocation(Draft& draft, std::vector<Host>& hosts);

/// Completes the options of --mpi and --jsrun. mpirun has the output of the processes that it
/// starts, so it excludes some flags.
[[nodiscard]] Status check_mpi(Draft& draft);

/// A variable as the ranks will find it: of --env, else of another flag or the config file, else
/// horovodrun's own.
[[nodiscard]] std::optional<std::string> variable_of_ranks(const Draft& draft,
                                                           std::string_view name);

/// Refuses values of variables that the runtime would refuse, wherever they are set.
[[nodiscard]] Status check_variables(const Draft& draft);

/// Takes the hosts of -H and the host file, else of the batch job around horovodrun, with the end
/// of that job and the shell that reaches its hosts. Errors also for more ranks than it has tasks.
[[nodiscard]] Status read_hosts(Draft& draft);

/// Reads the ports that the ranks will find in HOROVOD_PORT_RANGE, from wherever it is set, and
/// checks the one of --listen against them.
[[nodiscard]] Status check_ports(Draft& draft);

/// Completes the options of --listen, and checks the flags of its group against each other.
[[nodiscard]] Status check_join(Draft& draft);

/// The same with --join, beside which few flags (as they were typed) have a meaning.
[[nodiscard]] Status check_joining(Draft& draft, const std::vector<std::string>& spellings);

/// The words behind kTimeline.
[[nodiscard]] Result<Parsed> parse_timeline_command(const std::vector<std::string>& arguments);

}  // namespace hvd::launch
