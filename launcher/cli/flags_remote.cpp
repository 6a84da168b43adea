// SPDX-License-Identifier: Apache-2.0
//
// How other hosts are reached, and what happens when one of them fails.
#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <utility>

namespace hvd::launch {
namespace {

constexpr int kMaxPort = 65'535;
constexpr int kMaxConcurrency = 4096;

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

Status set_text(std::string& field, std::string_view value) {
    if (trim(value).empty()) {
        return wrong("a command is missing");
    }
    HVD_TRY_STATUS(split_shell_words(value));
    field = value;
    return ok();
}

/// Adds to what is there: the flag may be repeated, as in the original.
Status add_interfaces(Draft& draft, std::string_view value) {
    auto& list = draft.request.tunables[std::string(kNetworkInterfaces)];
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
std::string below_home(std::string_view path, const Environment& environment) {
    const auto home = find(environment, "HOME").value_or("");
    return path.starts_with("~/") && !home.empty() ? home + std::string(path.substr(1))
                                                   : std::string(path);
}

/// "20000-20999", or one port.
Result<PortSpan> port_span(std::string_view value) {
    const auto dash = value.find('-');
    const auto first = whole_number(trim(value.substr(0, dash)), 1, kMaxPort);
    const auto last = dash == std::string_view::npos
                          ? first
                          : whole_number(trim(value.substr(dash + 1)), 1, kMaxPort);
    if (!first || !last || *last < *first) {
        return wrong("must be two ports from 1 to 65535, such as 20000-20999");
    }
    return PortSpan{.first = *first, .last = *last};
}

Status set_port_range(Draft& draft, std::string_view value) {
    HVD_TRY_STATUS(port_span(value));
    draft.request.tunables[std::string(kPortRange)] = value;
    return ok();
}

Status set_on_failure(Draft& draft, std::string_view value) {
    if (value != "stop" && value != "wait") {
        return wrong("must be stop (the first failure ends the job) or wait (the others go on)");
    }
    draft.request.on_failure = value == "wait" ? FailureRule::wait : FailureRule::stop;
    return ok();
}

}  // namespace

Status check_ports(Draft& draft) {
    auto& request = draft.request;
    const auto text = variable_of_ranks(draft, kPortRange);
    if (!text || trim(*text).empty()) {
        return ok();
    }
    auto span = port_span(*text);
    if (!span) {
        return std::move(span).error().context(std::string(kPortRange) + "=" + *text);
    }
    request.ports = *span;
    if (request.listen && request.listen->port != 0 &&
        (request.listen->port < span->first || request.listen->port > span->last)) {
        const auto port = std::to_string(request.listen->port);
        return wrong("--listen " + request.listen->host + ":" + port + ": port " + port +
                     " is not in --port-range " + *text + "; take one of these, or 0 for any");
    }
    return ok();
}

FlagSection remote_flags() {
    return {
        "Other hosts",
        {{{"-p", "--ssh-port"},
          "PORT",
          "SSH port of all hosts that have none of their own (default: ~/.ssh/config, else 22)",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.request.remote.port, whole_number(value, 1, kMaxPort));
              return ok();
          }},
         {{"-i", "--ssh-identity-file"},
          "FILE",
          "private key for SSH, and no other (default: those of ~/.ssh/config and the SSH agent)",
          [](Draft& draft, std::string_view value) -> Status {
              if (value.empty()) {
                  return wrong("a file name is missing");
              }
              draft.request.remote.identity = below_home(value, draft.environment);
              return ok();
          }},
         {{"--ssh-concurrency"},
          "N",
          "how many hosts are connected to at the same time (default 512, or what the limit of "
          "open "
          "files has room for)",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.request.remote.concurrency, whole_number(value, 1, kMaxConcurrency));
              return ok();
          }},
         {{"--remote-shell"},
          "COMMAND",
          "run COMMAND HOST 'sh line' instead of SSH, such as a wrapper of kubectl exec "
          "(default: OMPI_MCA_plm_rsh_agent, where that is /etc/mpi/kubexec.sh)",
          [](Draft& draft, std::string_view value) {
              return set_text(draft.request.remote.shell, value);
          }},
         {{"--wrap"},
          "COMMAND",
          "start the agent, and so the ranks, of other hosts inside this, such as 'apptainer "
          "exec img.sif'",
          [](Draft& draft, std::string_view value) {
              return set_text(draft.request.remote.wrap, value);
          }},
         {{"--network-interfaces", "--network-interface"},
          "LIST",
          "interfaces for the ranks' data between hosts: names, patterns and networks, such "
          "as eth0,ib*,10.0.0.0/8 (default: all that reach the other host)",
          add_interfaces},
         {{"--port-range"},
          "A-B",
          "the only ports that horovodrun and the ranks may listen on: --listen HOST:0, "
          "MASTER_PORT "
          "and the ranks' data between hosts; not those of NCCL and mpirun (default: any free one)",
          set_port_range}}};
}

FlagSection failure_flags() {
    return {"When something fails",
            {{{"--on-failure"},
              "stop|wait",
              "stop (default): the first rank that fails ends the job; wait: the others go on",
              set_on_failure},
             {{"--lease"},
              "SECONDS",
              "a host that is silent for so long is lost (default 30)",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(draft.request.lease, seconds(value, 1));
                  return ok();
              }},
             {{"--exit-timeout"},
              "SECONDS",
              "end the job when ranks still run so long after the first one ended well",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(draft.request.exit_timeout, seconds(value, 0));
                  return ok();
              }},
             {{"--grace"},
              "SECONDS",
              "time between asking ranks to stop (SIGTERM) and killing them (default 10)",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(draft.request.grace, seconds(value, 0));
                  return ok();
              }}}};
}

}  // namespace hvd::launch
