// SPDX-License-Identifier: Apache-2.0
//
// What to run, where, with what and for how long.
#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <limits>
#include <utility>

namespace hvd::launch {
namespace {

constexpr int kMaxRanks = 1 << 20;

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

Status set_environment(Draft& draft, std::string_view value) {
    const auto equals = value.find('=');
    const auto name = std::string(value.substr(0, equals));
    if (name.empty()) {
        return wrong("write NAME=VALUE");
    }
    if (equals != std::string_view::npos) {
        draft.request.env_set[name] = value.substr(equals + 1);
        return ok();
    }
    const auto own = find(draft.environment, name);
    if (!own) {
        return wrong(name + " is not set here; write " + name + "=VALUE");
    }
    draft.request.env_set[name] = *own;
    return ok();
}

Status set_gpu_bind(Draft& draft, std::string_view value) {
    if (value == "index") {
        draft.request.gpu_bind = GpuBind::index;
    } else if (value == "env") {
        draft.request.gpu_bind = GpuBind::env;
    } else if (value == "none") {
        draft.request.gpu_bind = GpuBind::none;
    } else {
        return wrong(
            "must be index (all GPUs visible, a rank uses its own), env (only its own "
            "is visible) or none");
    }
    return ok();
}

Status set_bind_to(Draft& draft, std::string_view value) {
    if (value == "share") {
        draft.request.bind_to = BindTo::share;
    } else if (value == "none") {
        draft.request.bind_to = BindTo::none;
    } else {
        return wrong("must be share (each rank gets an even share of the CPUs) or none");
    }
    return ok();
}

Status set_file(std::optional<std::filesystem::path>& field, std::string_view value) {
    if (value.empty()) {
        return wrong("a file name is missing");
    }
    if (field) {
        return wrong("it is written twice, before this with " + field->string() +
                     "; leave one out");
    }
    field = value;
    return ok();
}

}  // namespace

FlagSection job_flags() {
    return {
        "Job",
        {{{"-np", "-n", "--num-proc"},
          "N",
          "how many processes (ranks) to start",
          [](Draft& draft, std::string_view value) -> Status {
              HVD_TRY(draft.request.processes, whole_number(value, 1, kMaxRanks));
              return ok();
          }},
         {{"--config-file"},
          "FILE",
          "settings in YAML; flags win over it wherever they stand",
          [](Draft& draft, std::string_view value) { return set_file(draft.config_file, value); }},
         {{"--dry-run"},
          "",
          "print what would run where and the commands that started the agents, and start no rank",
          [](Draft& draft, std::string_view) {
              draft.request.dry_run = true;
              return ok();
          }},
         {{"--output-format"},
          "text|json",
          "form of the plan that --dry-run prints",
          [](Draft& draft, std::string_view value) -> Status {
              if (value != "text" && value != "json") {
                  return wrong("must be text or json");
              }
              draft.request.output_format =
                  value == "json" ? OutputFormat::json : OutputFormat::text;
              draft.output_format_given = true;
              return ok();
          }},
         {{"--facts"},
          "FILE",
          "with --dry-run: plan for the hosts described in this JSON file, start nothing",
          [](Draft& draft, std::string_view value) {
              return set_file(draft.request.facts_file, value);
          }}}};
}

FlagSection host_flags() {
    return {"Hosts",
            {{{"-H", "--hosts"},
              "HOST[:SLOTS],...",
              "where ranks may run, and at most how many on each host; without SLOTS as many as it "
              "has GPUs, else CPUs. Also me@HOST, [IPV6], ssh://me@HOST:PORT/SLOTS, node[01-16], "
              "and ^HOST to leave one out. May be repeated",
              [](Draft& draft, std::string_view value) {
                  draft.hosts = (draft.hosts ? *draft.hosts + "," : "") + std::string(value);
                  return ok();
              }},
             {{"-hostfile", "--hostfile"},
              "FILE",
              "the same from a file: a line is HOST slots=N, or HOST:N; - is standard input",
              [](Draft& draft, std::string_view value) { return set_file(draft.hostfile, value); }},
             {{"--no-oversubscribe"},
              "",
              "refuse more ranks than a host has GPUs or CPUs, instead of warning",
              [](Draft& draft, std::string_view) {
                  draft.request.may_oversubscribe = false;
                  return ok();
              }}}};
}

FlagSection placement_flags() {
    return {"CPUs and GPUs",
            {{{"--bind-to"},
              "share|none",
              "share (default): pin each rank to an even share of the CPUs, near its GPU; none: "
              "leave the affinity alone",
              set_bind_to},
             {{"--gpu-bind"},
              "index|env|none",
              "index (default): a rank sees all allowed GPUs and owns number local_rank; env: it "
              "sees only its own; none: GPUs are left alone",
              set_gpu_bind},
             {{"--gpus-per-rank"},
              "N",
              "how many GPUs each rank owns (default 1; in Slurm its --gpus-per-task)",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(draft.request.gpus_per_rank, whole_number(value, 1, 1024));
                  draft.gpus_per_rank_given = true;
                  return ok();
              }},
             {{"--share-gpus"},
              "",
              "let several ranks use one GPU",
              [](Draft& draft, std::string_view) {
                  draft.request.share_gpus = true;
                  return ok();
              }}}};
}

FlagSection environment_flags() {
    return {
        "Environment of the ranks",
        {{{"--env"},
          "NAME[=VALUE]",
          "set a variable; without =VALUE to the value it has here. May be repeated; wins over "
          "everything else",
          set_environment},
         {{"--env-pass"},
          "GLOB",
          "pass on the variables whose names match, such as 'NCCL_*', also with --env-clean, and "
          "to other hosts what would stay here, such as HOME. May be repeated",
          [](Draft& draft, std::string_view value) -> Status {
              if (value.empty() || value.find('=') != std::string_view::npos) {
                  return wrong("must be a name or a pattern, such as NCCL_*");
              }
              draft.request.env_pass.emplace_back(value);
              return ok();
          }},
         {{"--env-clean"},
          "",
          "pass on nothing but --env, --env-pass and what horovodrun itself sets",
          [](Draft& draft, std::string_view) {
              draft.request.env_clean = true;
              return ok();
          }}}};
}

FlagSection time_flags() {
    return {"Time limits",
            {{{"--start-timeout"},
              "SECONDS",
              "give up when not every rank has started by then (default HOROVOD_START_TIMEOUT, "
              "else 30, and 0.1 for each host beyond 64, and 5 for each time that "
              "--ssh-concurrency is used up)",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(draft.start_timeout, seconds(value, 0));
                  return ok();
              }},
             {{"--timeout"},
              "SECONDS",
              "end the whole job after this time, with exit code 124",
              [](Draft& draft, std::string_view value) -> Status {
                  HVD_TRY(const auto limit, seconds(value, 0));
                  if (limit.count() == 0) {
                      return wrong("must be more than 0 seconds");
                  }
                  draft.request.timeout = limit;
                  return ok();
              }}}};
}

}  // namespace hvd::launch
