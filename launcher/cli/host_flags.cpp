// SPDX-License-Identifier: Apache-2.0
//
// Flags about hosts: which there are, and how they are reached.
#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::launch {
namespace {

constexpr int kMaxConcurrency = 4096;
constexpr int kMaxHosts = 1 << 20;

/// Refuses words that the login shells of hosts read in different ways.
Status set_wrap(Draft& draft, std::string_view value) {
    auto& wrap = draft.request.ssh.wrap;
    HVD_TRY_STATUS(set_command(wrap, value));
    const auto is_strange = [](const std::string& word) {
        return word.find_first_of("'\\!\n") != std::string::npos;
    };
    const auto strange = std::ranges::find_if(wrap, is_strange);
    return strange == wrap.end()
               ? ok()
               : wrong("the word " + *strange +
                       " has a quote, backslash, exclamation mark or line end, which the shells of "
                       "hosts read in different ways; put the command into a script");
}

/// Appends: the flag may be repeated, as in the original.
Status add_interfaces(Draft& draft, std::string_view value) {
    auto& list = draft.request.environment.tunables[std::string(kNetworkInterfaces)];
    for (const auto part : split(value, ',')) {
        const auto name = trim(part);
        if (name.empty() || name.find_first_of(" \t") != std::string_view::npos) {
            return wrong("must be names, patterns or networks, such as eth0,ib*,10.0.0.0/8");
        }
        HVD_TRY_STATUS(coll::net::parse_interface_filter(name));
        list += (list.empty() ? "" : ",") + std::string(name);
    }
    return ok();
}

/// As ssh takes "~/key": a shell leaves it so in `--ssh-identity-file=~/key`.
Status set_identity(Draft& draft, std::string_view value) {
    const auto home = find(draft.environment, "HOME").value_or("");
    const bool is_below_home = value.starts_with("~/") && !home.empty();
    return set_path(draft.request.ssh.identity,
                    is_below_home ? home + std::string(value.substr(1)) : std::string(value));
}

Status add_words(std::vector<std::string>& arguments, std::string_view value) {
    HVD_TRY(auto words, split_shell_words(value));
    std::ranges::move(words, std::back_inserter(arguments));
    return ok();
}

constexpr std::array kHostFlags{
    flag("-H, --hosts HOST[:SLOTS],...",
         "where ranks may run, and at most how many on each host; without SLOTS as many as "
         "it has GPUs, else CPUs. Also me@HOST, [IPV6], ssh://me@HOST:PORT/SLOTS, "
         "node[01-16], and ^HOST to leave one out. May be repeated",
         [](Draft& draft, std::string_view value) {
             draft.hosts = (draft.hosts ? *draft.hosts + "," : "") + std::string(value);
             return ok();
         },
         {.brief = "hosts, and how many ranks each may have"}),
    flag("-hostfile, --hostfile FILE",
         "the same from a file: a line is HOST slots=N, or HOST:N; - is standard input",
         [](Draft& draft, std::string_view value) { return set_path_once(draft.hostfile, value); },
         {.brief = "hosts from a file: a line is HOST slots=N"}),
    flag("--oversubscribe",
         "start even more than 64 ranks for each CPU of a host",
         set_value<&LaunchRequest::binding, &BindingOptions::may_overload, true>),
    flag("--no-oversubscribe",
         "refuse more ranks than a host has GPUs or CPUs, instead of warning",
         set_value<&LaunchRequest::binding, &BindingOptions::may_oversubscribe, false>),
};

constexpr std::array kRemoteFlags{
    flag("-p, --ssh-port PORT",
         "SSH port of all hosts that have none of their own (default: ~/.ssh/config, else "
         "22)",
         set_number<&LaunchRequest::ssh, &SshOptions::port, 1, kMaxPort>,
         {.brief = "SSH port of the hosts"}),
    flag("-i, --ssh-identity-file FILE",
         "private key for SSH, and no other (default: those of ~/.ssh/config and the SSH "
         "agent)",
         set_identity,
         {.brief = "private key for SSH"}),
    flag("--ssh-concurrency N",
         "how many hosts are connected to at the same time (default: 512, or what the limit "
         "of open files has room for)",
         set_number<&LaunchRequest::ssh, &SshOptions::concurrency, 1, kMaxConcurrency>),
    flag("--remote-shell COMMAND",
         "run COMMAND HOST 'sh line' instead of SSH, such as a wrapper of kubectl exec "
         "(default: OMPI_MCA_plm_rsh_agent, where that is /etc/mpi/kubexec.sh)",
         [](Draft& draft, std::string_view value) {
             return set_command(draft.request.ssh.remote_shell, value);
         }),
    flag("--wrap COMMAND",
         "start the agent, and so the ranks, of other hosts inside this, such as 'apptainer "
         "exec img.sif'",
         set_wrap),
    flag("--network-interfaces, --network-interface LIST",
         "interfaces for the ranks' data between hosts: names, patterns and networks, such "
         "as eth0,ib*,10.0.0.0/8 (default: all that reach the other host). May be repeated",
         add_interfaces),
    flag("--port-range A-B",
         "the only ports that horovodrun and the ranks may listen on: --listen HOST:0, "
         "MASTER_PORT and the ranks' data between hosts; not those of NCCL and mpirun "
         "(default: any free one)",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY_STATUS(port_span(value));
             draft.request.environment.tunables[std::string(kPortRange)] = value;
             return ok();
         }),
};

constexpr std::array kJoinFlags{
    flag("--listen HOST:PORT",
         "start no agent elsewhere, but wait at this address of this machine until the "
         "hosts of -H have joined, or --join-hosts of them, or enough for -np. PORT 0 takes "
         "a free one; 0.0.0.0 is all addresses. This machine gets ranks only if -H names "
         "it",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY(draft.request.hosts.listen, end_point(value, 0));
             return ok();
         },
         {.places = in_job}),
    flag("--join-hosts N",
         "with --listen and without -H: wait for N hosts, and spread -np evenly over those "
         "that join without --join-slots",
         set_number<&LaunchRequest::hosts, &HostOptions::join_count, 1, kMaxHosts>,
         {.places = in_job}),
    flag("--join HOST:PORT",
         "run no command, but be a host of the job whose horovodrun listens there; ends "
         "with the job's exit code",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY(draft.join.launcher, end_point(value, 1));
             draft.is_joining = true;
             return ok();
         },
         {.places = in_join}),
    flag("--join-token-file FILE",
         "with --listen and --join: the secret of both, at least 32 characters (default: "
         "HOROVOD_JOIN_TOKEN_FILE; else --listen makes a file, and --join reads standard "
         "input)",
         set_file<&LaunchRequest::hosts, &HostOptions::join_token_file>,
         {.places = in_job | in_join}),
    flag("--join-name NAME",
         "with --join: the name of this host in the job, as -H has it (default: its "
         "hostname)",
         [](Draft& draft, std::string_view value) -> Status {
             if (value.empty()) {
                 return wrong("a name is missing");
             }
             draft.join.name = value;
             return ok();
         },
         {.places = in_join}),
    flag("--join-slots N",
         "with --join: at most so many ranks here, unless -H says it (default: its GPUs, "
         "else CPUs)",
         [](Draft& draft, std::string_view value) -> Status {
             HVD_TRY(draft.join.slots, whole_number(value, 1, kMaxSlots));
             return ok();
         },
         {.places = in_join}),
};

constexpr std::array kMpiFlags{
    flag("--mpi",
         "start the ranks by the mpirun in PATH (HOROVOD_MPIRUN names another): Open MPI, "
         "MPICH, Intel MPI or Spectrum MPI",
         [](Draft& draft, std::string_view) {
             draft.is_mpi = true;
             draft.request.mpi.is_wanted = true;
             return ok();
         },
         {.brief = "start the ranks by the mpirun in PATH"}),
    flag("--jsrun",
         "the same by the jsrun in PATH, inside an LSF job: where only jsrun starts "
         "processes on the compute nodes as MPI programs need them; the agents of the hosts "
         "are started by blaunch, or as --remote-shell says",
         [](Draft& draft, std::string_view) {
             draft.request.mpi.is_wanted = true;
             draft.request.mpi.is_jsrun = true;
             draft.request.mpi.program = "jsrun";
             return ok();
         }),
    flag("--mpi-args ARGS",
         "more arguments for mpirun or jsrun, in one word: --mpi-args='--mca pml ucx'",
         [](Draft& draft, std::string_view value) {
             return add_words(draft.request.mpi.args, value);
         },
         {.places = in_job}),
    flag("--binding-args ARGS",
         "for mpirun, instead of --bind-to none --map-by slot; for jsrun, instead of the "
         "resource sets (from --nrs to --bind) or the --erf_input that it would be given",
         [](Draft& draft, std::string_view value) {
             draft.request.mpi.binding_args.clear();
             return add_words(draft.request.mpi.binding_args, value);
         },
         {.places = in_job}),
};

constexpr std::array kGroups{FlagGroup{"Hosts", kHostFlags}, FlagGroup{"Other hosts", kRemoteFlags},
                             FlagGroup{"Hosts that join by themselves", kJoinFlags},
                             FlagGroup{"Through mpirun or jsrun", kMpiFlags}};

}  // namespace

std::span<const FlagGroup> host_flags() noexcept {
    return kGroups;
}

}  // namespace hvd::launch
