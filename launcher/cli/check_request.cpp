// SPDX-License-Identifier: Apache-2.0
//
// Whether what the flags say together makes a job, or something for the doctor.
#include "launcher/cli/flag.hpp"

#include <string>
#include <utility>

namespace hvd::launch {
namespace {

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

/// How many ranks there will be, where that is known before any host was asked.
std::optional<int> known_size(const LaunchRequest& request) {
    if (request.processes || request.hosts.empty()) {
        return request.processes;
    }
    int size = 0;
    for (const auto& host : request.hosts) {
        if (!host.slots) {
            return std::nullopt;
        }
        size += *host.slots;
    }
    return size;
}

Status check_ranks(const LaunchRequest& request) {
    const auto size = known_size(request);
    if (!size) {
        return ok();
    }
    const auto beyond = " but the ranks are 0 to " + std::to_string(*size - 1);
    if (request.show && request.show->back() >= *size) {
        return wrong("--show names rank " + std::to_string(request.show->back()) + "," + beyond);
    }
    if (request.stdin_rank.value_or(0) >= *size) {
        return wrong("--stdin names rank " + std::to_string(*request.stdin_rank) + "," + beyond);
    }
    return ok();
}

}  // namespace

Status check_remote_shell(const LaunchRequest& request) {
    const auto& remote = request.remote;
    if (remote.shell.empty() || is_ssh_command(remote.shell)) {
        return ok();
    }
    const auto refuse = [&](const std::string& what) {
        return wrong(what + " is for SSH, but '" + remote.shell +
                     "' reaches the hosts, which is told a host's name and nothing more; leave it "
                     "out, or put what that program needs into --remote-shell");
    };
    if (remote.port) {
        return refuse("-p " + std::to_string(*remote.port));
    }
    if (remote.identity) {
        return refuse("-i " + remote.identity->string());
    }
    for (const auto& host : request.hosts) {
        if (host.port) {
            return refuse("the port " + std::to_string(*host.port) + " of host " + host.name);
        }
    }
    return ok();
}

Status check_job(const Draft& draft) {
    const auto& request = draft.request;
    if (draft.json) {
        return wrong(
            "--json is about what `horovodrun doctor` finds; write doctor first, or "
            "--output-format json with --dry-run, or --summary FILE");
    }
    if (draft.output_format_given && !request.dry_run) {
        return wrong("--output-format is about the plan that --dry-run prints; add --dry-run");
    }
    if (request.facts_file && !request.dry_run) {
        return wrong("--facts plans without starting anything; add --dry-run");
    }
    if (!request.processes && request.hosts.empty() && !request.facts_file && !request.join_hosts) {
        return wrong("say how many ranks to start: -np N");
    }
    if (request.prefix && request.prefix_timestamp) {
        return wrong("-prefix-timestamp and --prefix: write {time} into the prefix instead");
    }
    HVD_TRY_STATUS(check_ranks(request));
    if (request.command.empty()) {
        return wrong(
            "there is no command; write it after the flags: horovodrun -np 4 python3 "
            "train.py");
    }
    return ok();
}

Status check_doctor(const Draft& draft) {
    const auto& request = draft.request;
    if (request.listen) {
        return wrong(
            "the doctor goes to the hosts; leave out --listen, or see what joins with "
            "--dry-run");
    }
    if (request.dry_run || request.facts_file || draft.output_format_given) {
        return wrong(
            "doctor starts no rank and prints no plan; leave --dry-run, --output-format and "
            "--facts out");
    }
    return check_ranks(request);
}

FlagSection doctor_flags() {
    return {"Doctor (horovodrun doctor [flags] [command]: examine hosts, start no rank)",
            {{{"--json"},
              "",
              "print what the doctor found as JSON",
              [](Draft& draft, std::string_view) {
                  draft.json = true;
                  return ok();
              }}}};
}

}  // namespace hvd::launch
