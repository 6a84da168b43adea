// SPDX-License-Identifier: Apache-2.0
//
// --jsrun: the LSF job whose hosts jsrun reaches.
#include "collectives/base/command_path.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/values.hpp"
#include "launcher/hosts/allocation.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

/// "a:42,b:42".
std::string describe(const std::vector<Host>& hosts) {
    constexpr std::size_t kMostShown = 200;
    std::string written;
    for (const auto& host : hosts) {
        written +=
            (written.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots.value_or(1));
        if (written.size() > kMostShown) {
            return written.substr(0, written.rfind(',')) + ",...";
        }
    }
    return written;
}

Status check_host(Host& host, const Allocation& job) {
    const auto found = std::ranges::find(job.hosts, host.name, &Host::name);
    if (found == job.hosts.end()) {
        return wrong("--jsrun: host " + host.name + " is not in " + job.name + " (" +
                     describe(job.hosts) + "); leave it out, or ask LSF for it");
    }
    if (host.slots.value_or(0) > found->slots.value_or(1)) {
        return wrong("--jsrun: " + host.name + ":" + std::to_string(*host.slots) +
                     " is more than the " + std::to_string(found->slots.value_or(1)) +
                     " slots that " + job.name + " has there; write fewer, or ask LSF for more");
    }
    if (!host.slots) {
        host.slots = found->slots;
    }
    return ok();
}

}  // namespace

Status take_jsrun_allocation(Draft& draft, std::vector<Host>& hosts) {
    HVD_TRY(auto job, found(find_allocation(draft.environment)));
    if (!job || job->scheduler != Scheduler::lsf) {
        return wrong(
            "--jsrun starts ranks inside of an LSF job, and " +
            (job ? "this is " + job->name
                 : std::string("none is here (LSB_MCPU_HOSTS, LSB_DJOB_HOSTFILE and LSB_HOSTS are "
                               "not set)")) +
            "; start horovodrun in a job (bsub), or leave --jsrun out");
    }
    if (!find_command("jsrun", find(draft.environment, "PATH"), "").is_program()) {
        return wrong(
            "--jsrun: there is no jsrun in PATH=" + find(draft.environment, "PATH").value_or("") +
            "; add its folder (IBM's /opt/ibm/spectrum_mpi/jsm_pmix/bin), or leave "
            "--jsrun out");
    }
    for (auto& host : hosts) {
        HVD_TRY_STATUS(check_host(host, *job));
    }
    if (!hosts.empty() && draft.request.ssh.remote_shell.empty()) {
        draft.request.ssh.remote_shell = {"blaunch"};
    }
    draft.request.mpi.allocation = std::move(job->hosts);
    return ok();
}

}  // namespace hvd::launch
