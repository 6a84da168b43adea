// SPDX-License-Identifier: Apache-2.0
//
// Flags for starting through an mpirun or jsrun.
#include "launcher/cli/flag.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

/// Where another launcher starts the ranks, and we only stand in front of their program.
bool has_meaning_in_task(std::string_view spelled) {
    constexpr std::array<std::string_view, 7> kAllowed{
        "--env",      "--bind-to",       "--config-file", "--verbose",
        "--gpu-bind", "--gpus-per-rank", "--share-gpus"};
    const auto is_it = [&](const Flag& flag) {
        return std::ranges::find(flag.names, spelled) != flag.names.end();
    };
    return std::ranges::find(kAllowed, spelled) != kAllowed.end() ||
           std::ranges::any_of(tunable_flags(), [&](const FlagSection& section) {
               return std::ranges::any_of(section.flags, is_it);
           });
}

std::string name_of(const std::optional<std::string>& user) {
    return user ? "user " + *user : "the user that ssh takes by itself";
}

/// mpirun runs on the first host and reaches the others by a ssh of its own, which can be told one
/// port for all of them.
Status check_mpi_hosts(const Draft& draft, MpiRequest& mpi) {
    const auto& hosts = draft.request.hosts;
    const auto& remote = draft.request.remote;
    mpi.ssh_port = remote.port;
    if (hosts.size() < 2) {
        return ok();
    }
    const auto refuse = [&](const std::string& what, const std::string& remedy) {
        return wrong("--mpi: " + what + ", but mpirun reaches the other hosts from " +
                     hosts.front().name + " by an ssh of its own; " + remedy);
    };
    const std::string block = "write it into a Host block of ~/.ssh/config there";
    const bool knows_shell = find(draft.environment, kRemoteShellVariable) ||
                             mpi.args.find("_agent") != std::string::npos ||
                             mpi.args.find("-launcher") != std::string::npos;
    if (!remote.shell.empty() && remote.shell != "blaunch" && !knows_shell) {
        return refuse("--remote-shell '" + remote.shell + "' starts the agents",
                      "tell mpirun too, as by --mpi-args='--mca plm_rsh_agent COMMAND' or "
                      "'-launcher ssh -launcher-exec COMMAND'");
    }
    const auto port_of = [&](const Host& host) { return host.port ? host.port : remote.port; };
    mpi.ssh_port = port_of(hosts[1]);
    for (std::size_t index = 1; index < hosts.size(); ++index) {
        const auto& host = hosts[index];
        if (host.name.starts_with('[')) {
            return refuse("host " + host.name + " is an IPv6 address, which mpirun cannot be told",
                          "give the host a name");
        }
        if (host.user != hosts.front().user) {
            return refuse("host " + host.name + " is for " + name_of(host.user) + " and " +
                              hosts.front().name + " for " + name_of(hosts.front().user),
                          block);
        }
        if (port_of(host) != mpi.ssh_port) {
            return refuse("hosts " + hosts[1].name + " and " + host.name + " have different ports",
                          block);
        }
    }
    return ok();
}

}  // namespace

FlagSection mpi_flags() {
    return {"Through mpirun or jsrun",
            {{{"--mpi"},
              "",
              "start the ranks by the mpirun in PATH (HOROVOD_MPIRUN names another): Open MPI, "
              "MPICH, Intel MPI or Spectrum MPI",
              [](Draft& draft, std::string_view) {
                  draft.is_mpi = true;
                  draft.request.mpi.is_wanted = true;
                  return ok();
              }},
             {{"--jsrun"},
              "",
              "the same by the jsrun in PATH, inside of an LSF job: where only jsrun starts "
              "processes on the compute nodes as MPI programs need them; the agents of the hosts "
              "are started by blaunch, or as --remote-shell says",
              [](Draft& draft, std::string_view) {
                  draft.request.mpi.is_wanted = true;
                  draft.request.mpi.is_jsrun = true;
                  draft.request.mpi.program = "jsrun";
                  return ok();
              }},
             {{"--mpi-args"},
              "ARGS",
              "more arguments for mpirun or jsrun, in one word: --mpi-args='--mca pml ucx'",
              [](Draft& draft, std::string_view value) {
                  auto& args = draft.request.mpi.args;
                  args += (args.empty() ? "" : " ") + std::string(value);
                  return ok();
              }},
             {{"--binding-args"},
              "ARGS",
              "for mpirun, instead of --bind-to none --map-by slot; for jsrun, instead of the "
              "resource sets (from --nrs to --bind) or the --erf_input that it would be given",
              [](Draft& draft, std::string_view value) {
                  draft.request.mpi.binding_args = value;
                  return ok();
              }}}};
}

Status check_controllers(const Draft& draft) {
    const bool is_jsrun = draft.request.mpi.is_jsrun;
    if (draft.is_native && (draft.is_mpi || is_jsrun)) {
        return wrong(std::string("--gloo and ") + (is_jsrun ? "--jsrun" : "--mpi") +
                     ": each is a way to start the ranks; write one of them");
    }
    if (draft.is_mpi && is_jsrun) {
        return wrong("--mpi and --jsrun: each is a way to start the ranks; write one of them");
    }
    return ok();
}

Status check_mpi(Draft& draft) {
    auto& request = draft.request;
    if (const auto program = find(draft.environment, "HOROVOD_MPIRUN");
        program && !program->empty() && !request.mpi.is_jsrun) {
        request.mpi.program = *program;
    }
    if (!request.mpi.is_wanted) {
        return request.mpi.args.empty() && request.mpi.binding_args.empty()
                   ? ok()
                   : wrong("--mpi-args and --binding-args are for mpirun; add --mpi or --jsrun");
    }
    if (!request.remote.wrap.empty()) {
        return wrong("--wrap '" + request.remote.wrap + "' does not work with --" +
                     (request.mpi.is_jsrun ? "jsrun" : "mpi") +
                     ", whose program starts the ranks; write it before the command instead");
    }
    if (request.facts_file && request.mpi.is_jsrun) {
        return wrong("--facts does not work with --jsrun: it needs the LSF job that it runs in");
    }
    if (request.facts_file) {
        return wrong("--facts does not work with --mpi: which mpirun is here must be looked up");
    }
    return request.mpi.is_jsrun ? ok() : check_mpi_hosts(draft, request.mpi);
}

Result<std::optional<Task>> find_own_task(const Draft& draft) {
    // A rank of ours, which knows its place by other variables.
    if (find(draft.environment, "HOROVOD_AGENT_SOCKET")) {
        return std::optional<Task>();
    }
    HVD_TRY(const auto task, find_task(draft.environment));
    const auto& request = draft.request;
    const bool is_job = request.processes || draft.hosts || draft.hostfile || request.dry_run;
    if (!task || !is_job) {
        return task;
    }
    if (task->size != 1 && !request.dry_run) {
        return wrong("already rank " + std::to_string(task->rank) +
                     (task->size == 0 ? "" : " of " + std::to_string(task->size)) + " under " +
                     std::string(task->launcher) +
                     "; leave -np, -H and -hostfile out to run the command as that rank, or start "
                     "horovodrun outside of " +
                     std::string(task->launcher) +
                     (task->size == 0 ? ", or set HOROVOD_LAUNCHER=none if it is no world" : ""));
    }
    return std::optional<Task>();
}

Status check_task(const Task& task, const std::vector<std::string>& spellings) {
    const auto idle = std::ranges::find_if_not(spellings, has_meaning_in_task);
    return idle == spellings.end()
               ? ok()
               : wrong(*idle + " has no effect under " + std::string(task.launcher) +
                       ", which starts and watches the ranks; leave it out, or start horovodrun "
                       "outside of " +
                       std::string(task.launcher));
}

Status check_line(std::string_view program, const std::vector<std::string>& spellings) {
    return spellings.empty()
               ? ok()
               : wrong(spellings.front() + " has no effect in front of " + std::string(program) +
                       "; leave it out, or let horovodrun write that line: horovodrun --mpi -np N "
                       "PROGRAM");
}

}  // namespace hvd::launch
