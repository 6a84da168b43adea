// SPDX-License-Identifier: Apache-2.0
//
// Whether what the flags say together makes a job, or something for the doctor.
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/values.hpp"
#include "launcher/hosts/host_spec.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>

namespace hvd::launch {
namespace {

/// How many ranks there will be, where that is known before any host was asked.
std::optional<int> known_size(const LaunchRequest& request) {
    if (request.processes || request.hosts.list.empty()) {
        return request.processes;
    }
    int size = 0;
    for (const auto& host : request.hosts.list) {
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
    for (const auto& [flag, ranks] : {std::pair{"--show", request.output.show},
                                      std::pair{"--progress-bars", request.output.bars}}) {
        if (ranks && ranks->back() >= *size) {
            return wrong(std::string(flag) + " names rank " + std::to_string(ranks->back()) + "," +
                         beyond);
        }
    }
    for (const auto& [flag, rank] : {std::pair{"--stdin", request.input.rank},
                                     std::pair{"--pty", request.input.terminal_rank}}) {
        if (rank.value_or(0) >= *size) {
            return wrong(std::string(flag) + " names rank " + std::to_string(*rank) + "," + beyond);
        }
    }
    return ok();
}

/// The rank with the terminal reads standard input alone, and its output is shown.
Status check_terminal_rank(const LaunchRequest& request) {
    const auto& input = request.input;
    if (!input.terminal_rank) {
        return ok();
    }
    const auto rank = std::to_string(*input.terminal_rank);
    if (input.is_for_all || (input.rank && input.rank != input.terminal_rank)) {
        return wrong("--pty " + rank + " and --stdin " +
                     (input.is_for_all ? "all" : std::to_string(*input.rank)) + ": rank " + rank +
                     " has the terminal, and what is typed there; leave one of them out");
    }
    if (const auto& show = request.output.show;
        show && std::ranges::find(*show, *input.terminal_rank) == show->end()) {
        return wrong("--show leaves out rank " + rank + ", which has the terminal (--pty " + rank +
                     "); add it");
    }
    if (request.mpi.is_wanted) {
        return wrong("--pty " + rank + " does not work with " +
                     (request.mpi.is_jsrun ? "--jsrun" : "--mpi") +
                     ", whose program starts the ranks; leave one of them out, or write --stdin " +
                     rank);
    }
    return ok();
}

/// The number of ranks is missing: perhaps it stands where it is an argument of the command.
Error missing_ranks(const std::vector<std::string>& command) {
    constexpr std::array<std::string_view, 3> kNames{"-np", "--np", "--num-proc"};
    constexpr std::array kCommands{kDoctor, kTimeline};
    const std::string text = "say how many ranks to start: ";
    const auto late = std::ranges::find_if(command, [&](std::string_view word) {
        return std::ranges::find(kNames, word.substr(0, word.find('='))) != kNames.end();
    });
    if (late != command.end()) {
        return wrong(text + late->substr(0, late->find('=')) + " stands behind the command '" +
                     command.front() + "', which gets it; write it before: horovodrun -np N " +
                     join({command.begin(), late}, " "));
    }
    const bool is_command =
        !command.empty() && std::ranges::find(kCommands, command.front()) != kCommands.end();
    const auto meant =
        command.empty() || is_command ? std::nullopt : nearest(command.front(), kCommands);
    return wrong(text + "-np N" +
                 (meant ? "; or did you mean horovodrun " + std::string(*meant) + "?" : ""));
}

/// "–np", as text editors write "-np": no program is called so.
Status check_dash(std::string_view word) {
    struct Dash {
        std::string_view text;
        std::string_view name;
    };
    constexpr std::array kDashes{Dash{"\u2010", "U+2010"}, Dash{"\u2011", "U+2011"},
                                 Dash{"\u2012", "U+2012"}, Dash{"\u2013", "U+2013"},
                                 Dash{"\u2014", "U+2014"}, Dash{"\u2015", "U+2015"},
                                 Dash{"\u2212", "U+2212"}, Dash{"\uff0d", "U+FF0D"}};
    const auto* const dash = std::ranges::find_if(
        kDashes, [&](const Dash& each) { return word.starts_with(each.text); });
    if (dash == kDashes.end()) {
        return ok();
    }
    std::string plain = "-";
    auto rest = word.substr(dash->text.size());
    for (; rest.starts_with(dash->text); rest.remove_prefix(dash->text.size())) {
        plain += '-';
    }
    return wrong("'" + std::string(word) + "' begins with another dash (" +
                 std::string(dash->name) + ") than '-', as text editors put in its place; write " +
                 plain + std::string(rest));
}

}  // namespace

Status check_remote_shell(const LaunchRequest& request) {
    const auto& remote = request.ssh;
    if (remote.remote_shell.empty() || is_ssh(remote.remote_shell.front())) {
        return ok();
    }
    const auto refuse = [&](const std::string& what) {
        return wrong(what + " is for SSH, but '" + join(remote.remote_shell, " ") +
                     "' reaches the hosts, which is told a host's name and nothing more; leave it "
                     "out, or put what that program needs into --remote-shell");
    };
    if (remote.port) {
        return refuse("-p " + std::to_string(*remote.port));
    }
    if (remote.identity) {
        return refuse("-i " + remote.identity->string());
    }
    for (const auto& host : request.hosts.list) {
        if (host.port) {
            return refuse("the port " + std::to_string(*host.port) + " of host " + host.name);
        }
    }
    return ok();
}

Status check_identity(const LaunchRequest& request) {
    if (!request.ssh.identity) {
        return ok();
    }
    const auto& path = *request.ssh.identity;
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    int reason = file ? 0 : errno;
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown)) {
        reason = EISDIR;
    }
    if (reason == 0) {
        return ok();
    }
    return wrong(system_error("-i " + path.string(), reason).message +
                 "; name the file of a private key, or of the public half of a key that an agent "
                 "has, or leave -i out for the keys of ~/.ssh/config");
}

Status check_ports(Draft& draft) {
    auto& request = draft.request;
    const auto text = variable_of_ranks(draft, kPortRange);
    if (!text || trim(*text).empty()) {
        return ok();
    }
    auto span = found(port_span(*text));
    if (!span) {
        return std::move(span).error().context(std::string(kPortRange) + "=" + *text);
    }
    request.hosts.ports = *span;
    if (request.hosts.listen && request.hosts.listen->port != 0 &&
        (request.hosts.listen->port < span->first || request.hosts.listen->port > span->last)) {
        const auto port = std::to_string(request.hosts.listen->port);
        return wrong("--listen " + request.hosts.listen->host + ":" + port + ": port " + port +
                     " is not in --port-range " + *text + "; take one of these, or 0 for any");
    }
    return ok();
}

Status check_job(const Draft& draft) {
    const auto& request = draft.request;
    if (!request.command.empty()) {
        HVD_TRY_STATUS(check_dash(request.command.front()));
    }
    if (draft.json) {
        return wrong(
            "--json is about what `horovodrun doctor` finds; write doctor first, or "
            "--output-format json with --dry-run, or --summary FILE");
    }
    if (draft.output_format_given && !request.dry_run.is_wanted) {
        return wrong("--output-format is about the plan that --dry-run prints; add --dry-run");
    }
    if (request.dry_run.facts_file && !request.dry_run.is_wanted) {
        return wrong("--facts plans without starting anything; add --dry-run");
    }
    if (request.dry_run.is_wanted && request.report.summary) {
        return wrong(
            "--summary tells how a job ended, and --dry-run starts none; leave one of them out");
    }
    if (request.dry_run.is_wanted && request.output.folder) {
        return wrong(
            "--output-filename takes what ranks print, and --dry-run starts none; leave one of "
            "them out");
    }
    if (!request.processes && request.hosts.list.empty() && !request.dry_run.facts_file &&
        !request.hosts.join_count) {
        return missing_ranks(request.command);
    }
    if (draft.prefix && draft.prefix_timestamp) {
        return wrong("-prefix-timestamp and --prefix: write {time} into the prefix instead");
    }
    HVD_TRY_STATUS(check_ranks(request));
    HVD_TRY_STATUS(check_terminal_rank(request));
    if (request.command.empty()) {
        return wrong(
            "there is no command; write it after the flags: horovodrun -np 4 python3 "
            "train.py");
    }
    return ok();
}

Status check_doctor(const Draft& draft) {
    const auto& request = draft.request;
    if (request.hosts.listen) {
        return wrong(
            "the doctor goes to the hosts; leave out --listen, or see what joins with "
            "--dry-run");
    }
    if (request.dry_run.is_wanted || request.dry_run.facts_file || draft.output_format_given) {
        return wrong(
            "doctor starts no rank and prints no plan; leave --dry-run, --output-format and "
            "--facts out");
    }
    const std::array idle{std::pair("--summary", request.report.summary.has_value()),
                          std::pair("--output-filename", request.output.folder.has_value()),
                          std::pair("--launch-trace", request.report.launch_trace.has_value()),
                          std::pair("--timeout", request.limits.timeout.has_value())};
    for (const auto& [flag, is_given] : idle) {
        if (is_given) {
            return wrong(std::string(flag) +
                         " is about a job, and the doctor starts none; leave it out");
        }
    }
    return check_ranks(request);
}

}  // namespace hvd::launch
