// SPDX-License-Identifier: Apache-2.0
//
// Checks of flags beside another launcher: an mpirun that horovodrun starts, or that started it.
#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launcher_record.hpp"
#include "collectives/launch_contract/pmi_server.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"
#include "launcher/hosts/task.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

/// Where another launcher starts the ranks, and horovodrun only stands in front of their program.
bool has_meaning_in_task(std::string_view spelled) {
    const auto& flag = *find_flag(spelled);
    return is_setting(flag) || (flag.details.places & in_task) != 0;
}

/// Those that MPI understands: names and networks, no patterns.
std::vector<std::string> interfaces_of(const Draft& draft) {
    std::vector<std::string> interfaces;
    const auto list = find(draft.request.environment.tunables, kNetworkInterfaces).value_or("");
    for (const auto part : split(list, ',')) {
        if (!part.empty() && part.find_first_of("*?[") == std::string_view::npos) {
            interfaces.emplace_back(part);
        }
    }
    return interfaces;
}

std::string name_of(const std::optional<std::string>& user) {
    return user ? "user " + *user : "the user that ssh takes by itself";
}

/// mpirun runs on the first host and reaches the others by its own ssh, which can be told one
/// port for all of them.
Status check_mpi_hosts(const Draft& draft) {
    const auto& hosts = draft.request.hosts.list;
    const auto& remote = draft.request.ssh;
    if (hosts.size() < 2) {
        return ok();
    }
    const auto refuse = [&](const std::string& what, const std::string& remedy) {
        return wrong("--mpi: " + what + ", but mpirun reaches the other hosts from " +
                     hosts.front().name + " by an ssh of its own; " + remedy);
    };
    const std::string block = "write it into a Host block of ~/.ssh/config there";
    const bool knows_shell = find(draft.environment, kRemoteShellVariable) ||
                             std::ranges::any_of(draft.request.mpi.args, [](const auto& word) {
                                 return word.find("_agent") != std::string::npos ||
                                        word.find("-launcher") != std::string::npos;
                             });
    const auto shell = join(remote.remote_shell, " ");
    if (!shell.empty() && shell != "blaunch" && !knows_shell) {
        return refuse("--remote-shell '" + shell + "' starts the agents",
                      "tell mpirun too, as by --mpi-args='--mca plm_rsh_agent COMMAND' or "
                      "'-launcher ssh -launcher-exec COMMAND'");
    }
    const auto port_of = [&](const Host& host) { return host.port ? host.port : remote.port; };
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
        if (port_of(host) != port_of(hosts[1])) {
            return refuse("hosts " + hosts[1].name + " and " + host.name + " have different ports",
                          block);
        }
    }
    return ok();
}

/// For a job that is wanted in spite of the task.
std::string ways_out_of(const Task& task) {
    if (task.launcher == kHorovodrun) {
        return "that job, or set HOROVOD_LAUNCHER=none for a job of its own";
    }
    return std::string(task.launcher) +
           (task.size == 0 ? ", or set HOROVOD_LAUNCHER=none if it is no world" : "");
}

}  // namespace

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
    if (!request.ssh.wrap.empty()) {
        return wrong("--wrap '" + join(request.ssh.wrap, " ") + "' does not work with --" +
                     (request.mpi.is_jsrun ? "jsrun" : "mpi") +
                     ", whose program starts the ranks; write it before the command instead");
    }
    if (request.dry_run.facts_file && request.mpi.is_jsrun) {
        return wrong("--facts does not work with --jsrun: it needs the LSF job that it runs in");
    }
    if (request.dry_run.facts_file) {
        return wrong("--facts does not work with --mpi: which mpirun is here must be looked up");
    }
    request.mpi.interfaces = interfaces_of(draft);
    return request.mpi.is_jsrun ? ok() : check_mpi_hosts(draft);
}

Result<std::optional<Task>> find_own_task(const Draft& draft) {
    HVD_TRY(const auto task, found(find_task(coll::innermost_environment(
                                 draft.environment, coll::find_pmi_server(draft.environment)))));
    const auto& request = draft.request;
    const bool is_job =
        request.processes || draft.hosts || draft.hostfile || request.dry_run.is_wanted;
    if (!task || !is_job) {
        return task;
    }
    // Users work by hand in the only task of another launcher, but not in a rank of horovodrun.
    const bool is_world = task->size != 1 || task->launcher == kHorovodrun;
    if (is_world && !request.dry_run.is_wanted) {
        return wrong("already rank " + std::to_string(task->rank) +
                     (task->size == 0 ? "" : " of " + std::to_string(task->size)) + " under " +
                     std::string(task->launcher) +
                     "; leave -np, -H and -hostfile out to run the command as that rank, or start "
                     "horovodrun outside of " +
                     ways_out_of(*task));
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
