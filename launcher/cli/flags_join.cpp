// SPDX-License-Identifier: Apache-2.0
//
// Hosts that are not started from here but join by themselves.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <array>

namespace hvd::launch {
namespace {

constexpr int kMaxPort = 65'535;
constexpr int kMaxHosts = 1 << 20;

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

/// "node1:4000", "10.0.0.1:4000", "[fd00::1]:4000".
Result<EndPoint> end_point(std::string_view value, int lowest_port) {
    const auto colon = value.rfind(':');
    const auto port = colon == std::string_view::npos
                          ? Result<int>(wrong(""))
                          : whole_number(value.substr(colon + 1), lowest_port, kMaxPort);
    auto host = value.substr(0, colon);
    const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (has_brackets) {
        host = host.substr(1, host.size() - 2);
    }
    if (!port || host.empty() || (!has_brackets && host.find(':') != std::string_view::npos)) {
        return wrong("must be HOST:PORT, such as node1:4000 or [fd00::1]:4000");
    }
    return EndPoint{.host = std::string(host), .port = *port};
}

}  // namespace

FlagSection join_flags() {
    return {
        "Hosts that join by themselves",
        {{{"--listen"},
          "HOST:PORT",
          "start no agent elsewhere, but wait at this address of this machine until the hosts of "
          "-H have joined, or --join-hosts of them, or enough for -np. PORT 0 takes a free one; "
          "0.0.0.0 is all addresses. This machine gets ranks only if -H names it",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.request.listen, end_point(value, 0));
              return ok();
          }},
         {{"--join-hosts"},
          "N",
          "with --listen and without -H: wait for N hosts, and spread -np evenly over those that "
          "join without --join-slots",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.request.join_hosts, whole_number(value, 1, kMaxHosts));
              return ok();
          }},
         {{"--join"},
          "HOST:PORT",
          "run no command, but be a host of the job whose horovodrun listens there; ends with the "
          "job's exit code",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.join.launcher, end_point(value, 1));
              draft.is_joining = true;
              return ok();
          }},
         {{"--join-token-file"},
          "FILE",
          "with --listen and --join: what both must know, at least 32 characters (default "
          "HOROVOD_JOIN_TOKEN_FILE; else --listen makes a file, and --join reads standard input)",
          [](Draft& draft, std::string_view value) -> Status {
              if (value.empty()) {
                  return wrong("a file name is missing");
              }
              draft.request.join_token_file = value;
              return ok();
          }},
         {{"--join-name"},
          "NAME",
          "with --join: the name of this host in the job, as -H has it (default: its hostname)",
          [](Draft& draft, std::string_view value) -> Status {
              if (value.empty()) {
                  return wrong("a name is missing");
              }
              draft.join.name = value;
              return ok();
          }},
         {{"--join-slots"},
          "N",
          "with --join: at most so many ranks here, unless -H says it (default: its GPUs, else "
          "CPUs)",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.join.slots, whole_number(value, 1, kMaxSlots));
              return ok();
          }}}};
}

Status check_join(Draft& draft) {
    constexpr std::string_view kTokenVariable = "HOROVOD_JOIN_TOKEN_FILE";
    auto& request = draft.request;
    if (const auto file = find(draft.environment, kTokenVariable);
        file && !file->empty() && !request.join_token_file) {
        request.join_token_file = *file;
    }
    draft.join.token_file = request.join_token_file;
    if (request.join_hosts && !request.listen) {
        return wrong("--join-hosts says for how many hosts --listen waits; add --listen HOST:PORT");
    }
    if (request.join_hosts && !request.hosts.empty()) {
        return wrong("--join-hosts and -H: write one of them; -H names the hosts that join");
    }
    if (request.listen && request.mpi.is_wanted) {
        return wrong(request.mpi.is_jsrun
                         ? "--jsrun takes the hosts of its LSF job; leave --listen out"
                         : "--mpi has mpirun start the hosts; leave --listen out");
    }
    if (request.listen && request.facts_file) {
        return wrong("--facts plans without any host; leave --listen out");
    }
    if (!draft.is_joining && (draft.join.slots != 0 || !draft.join.name.empty())) {
        return wrong(
            "--join-name and --join-slots are for a host that joins; add --join HOST:PORT");
    }
    return ok();
}

Status check_joining(Draft& draft, const std::vector<std::string>& spellings) {
    constexpr std::array<std::string_view, 5> kAllowed{"join", "join-name", "join-slots",
                                                       "join-token-file", "start-timeout"};
    for (const auto& spelled : spellings) {
        const auto name = std::string_view(spelled).substr(spelled.find_first_not_of('-'));
        if (std::ranges::find(kAllowed, name) == kAllowed.end()) {
            return wrong(spelled +
                         " does not go with --join: what runs is said where horovodrun "
                         "--listen is");
        }
    }
    if (!draft.request.command.empty()) {
        return wrong("--join takes no command: horovodrun --listen has it");
    }
    return check_join(draft);
}

}  // namespace hvd::launch
