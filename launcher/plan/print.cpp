// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/print.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

std::string list_gpus(const ProcessSpec& rank) {
    std::vector<std::string> indices;
    for (const auto& gpu : rank.gpus) {
        indices.push_back(is_mig(gpu) ? gpu.uuid : std::to_string(gpu.index));
    }
    return indices.empty() ? "-" : join(indices, ",");
}

constexpr std::size_t kTableColumns = 6;
using Row = std::array<std::string, kTableColumns>;

/// Columns as wide as their widest cell, two blanks between them.
std::string align(const std::vector<Row>& rows) {
    std::array<std::size_t, kTableColumns> widths{};
    for (const auto& row : rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], row[column].size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t column = 0; column < row.size(); ++column) {
            line += row[column] + std::string(widths[column] - row[column].size() + 2, ' ');
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

/// A rank with the values that it shares with others.
struct Place {
    const HostPlan* host = nullptr;
    const ProcessSpec* rank = nullptr;
};

const std::string* find_added(const LaunchPlan& plan, const Place& place, std::string_view name) {
    for (const auto* layer : {&place.rank->env, &place.host->ranks_env, &plan.job.ranks_env}) {
        if (const auto found = layer->find(name); found != layer->end()) {
            return &found->second;
        }
    }
    return nullptr;
}

std::string print_variable(const std::string& name, const std::string& value, Values values) {
    return values == Values::hidden ? name : name + "=" + quote_word(value);
}

/// The variables of the first rank, and whether every other has the same.
std::string describe_environment(const LaunchPlan& plan,
                                 const std::vector<Place>& places,
                                 Values values) {
    const auto& first = places.front();
    const auto added = added_environment(plan.job, *first.host, *first.rank);
    auto common = added;
    for (const auto& place : places) {
        std::erase_if(common, [&](const auto& entry) {
            const auto* value = find_added(plan, place, entry.first);
            return value == nullptr || *value != entry.second;
        });
    }
    std::string text = "environment, on top of horovodrun's own:\n";
    for (const auto& [name, value] : common) {
        text += "  " + print_variable(name, value, values) + "\n";
    }
    for (const auto& [name, value] : added) {
        if (!common.contains(name)) {
            text += "  " + print_variable(name, value, values) + " (rank " +
                    std::to_string(first.rank->rank) + "; differs from rank to rank)\n";
        }
    }
    return text;
}

std::string indent(std::string_view lines) {
    std::string text;
    for (const auto line : split(trim(lines), '\n')) {
        text.append("  ").append(line).append("\n");
    }
    return text;
}

/// The lines that are common to all ranks. Nothing where there are none.
std::string describe_command(const LaunchPlan& plan,
                             const std::vector<Place>& places,
                             Values values) {
    if (places.empty()) {
        return {};
    }
    std::string text;
    for (const auto& host : plan.hosts) {
        for (const auto& launcher : host.launchers) {
            text += "started by: " +
                    (values == Values::hidden ? print_command(launcher.argv, values)
                                              : quote_line(launcher.env, launcher.argv)) +
                    "\n";
        }
    }
    if (plan.launcher_file) {
        text += "which reads " + plan.launcher_file->path;
        text += values == Values::hidden ? "\n" : ":\n" + indent(plan.launcher_file->text);
    }
    const auto& first = *places.front().rank;
    text += "command: " + print_command(argv_of(plan.job, first), values);
    return text + "\ndirectory: " + cwd_of(plan.job, first) + "\n" +
           describe_environment(plan, places, values);
}

std::string describe_agents(std::span<const AgentWay> agents) {
    std::string text = agents.empty() ? "" : "agents:\n";
    for (const auto& agent : agents) {
        text += "  " + agent.host + ": " + agent.way + "\n";
    }
    return text;
}

std::string in_upper_case(std::string_view text) {
    std::string upper(text);
    std::ranges::transform(upper, upper.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return upper;
}

/// Whether the name looks like one of a secret. `name` is in upper case.
bool is_alarming(std::string_view name) {
    static constexpr std::array kParts{"AUTH", "CRED", "DSN",    "JWT",  "KEY",
                                       "PASS", "PWD",  "SECRET", "TOKEN"};
    return name.ends_with("_PAT") || std::ranges::any_of(kParts, [name](std::string_view part) {
               return name.find(part) != std::string_view::npos;
           });
}

/// Whether the value can be written to a file: everything else may be a secret.
bool is_harmless(std::string_view name, std::string_view value) {
    static constexpr std::array kNames{
        "CONDA_PREFIX", "HOSTNAME",        "LANG",       "LC_ALL",      "LC_CTYPE",
        "LC_NUMERIC",   "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",  "MASTER_PORT",     "PATH",       "PWD",         "RANK",
        "TF_CONFIG",    "TMPDIR",          "TZ",         "VIRTUAL_ENV", "WORLD_SIZE"};
    // Users' own variables do not begin like this. TF_ alone is Terraform's, too.
    static constexpr std::array kStarts{
        "CUDA_",   "FI_",     "GOMP_",     "HOROVOD_",   "KERAS_",    "KMP_",    "MKL_",
        "NCCL_",   "NVIDIA_", "OMP_",      "OMPI_MCA_",  "OPENBLAS_", "PYTHON",  "ROCR_",
        "SLURM_",  "TF_CPP_", "TF_CUDNN_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_NUM_",
        "TF_USE_", "TF_XLA_", "TORCH_",    "UCX_",       "XLA_"};
    const auto starts = [name](std::string_view start) { return name.starts_with(start); };
    const bool is_known = std::ranges::find(kNames, name) != kNames.end();
    const bool is_setting =
        is_known || (std::ranges::any_of(kStarts, starts) && !name.starts_with("PYTHON_") &&
                     !is_alarming(in_upper_case(name)));
    const auto login = value.find("://");
    const bool has_login =
        login != std::string_view::npos && value.find('@', login) != std::string_view::npos;
    return is_setting && !has_login;
}

Json to_json(const Environment& environment) {
    auto json = Json::object();
    for (const auto& [name, value] : environment) {
        json[name] = is_harmless(name, value) ? Json(value) : Json(nullptr);
    }
    return json;
}

std::string dump(const Json& document) {
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string print_command(const std::vector<std::string>& words, Values values) {
    if (values == Values::shown || words.size() < 2) {
        return quote_words(words);
    }
    const auto count = words.size() - 1;
    return quote_word(words.front()) + " (with " + std::to_string(count) +
           (count == 1 ? " argument)" : " arguments)");
}

std::string quote_line(const Environment& variables, const std::vector<std::string>& words) {
    std::string text = variables.empty() ? "" : "env ";
    for (const auto& [name, value] : variables) {
        text += name + "=" + quote_word(value) + " ";
    }
    return text + quote_words(words);
}

std::string print_text(const LaunchPlan& plan, std::span<const AgentWay> agents, Values values) {
    std::vector<Row> rows{{"rank", "host", "local", "cross", "GPUs", "CPUs"}};
    std::vector<Place> places;
    std::string hosts;
    for (const auto& host : plan.hosts) {
        hosts += (hosts.empty() ? "" : ", ") + host.host + " (" + std::to_string(host.slots) +
                 (host.slots == 1 ? " slot, " : " slots, ") + host.starter + ")";
        for (const auto& rank : host.ranks) {
            places.push_back({.host = &host, .rank = &rank});
            const auto cpus = format_ranges(rank.cpus);
            rows.push_back({std::to_string(rank.rank), host.host,
                            std::to_string(rank.local_rank) + "/" + std::to_string(rank.local_size),
                            std::to_string(rank.cross_rank) + "/" + std::to_string(rank.cross_size),
                            list_gpus(rank), cpus.empty() ? "any" : cpus});
        }
    }
    std::string text = std::to_string(plan.np) + (plan.np == 1 ? " rank, " : " ranks, ") +
                       plan.mode + " mode, on " + hosts + "\n" + align(rows);
    return text + describe_command(plan, places, values) + describe_agents(agents);
}

std::string print_json(const LaunchPlan& plan, std::span<const AgentWay> agents) {
    Json document{{"version", kFormatVersion}, {"mode", plan.mode},      {"np", plan.np},
                  {"hosts", Json::array()},    {"ranks", Json::array()}, {"agents", Json::array()}};
    for (const auto& host : plan.hosts) {
        for (const auto& launcher : host.launchers) {
            document["launcher"] = {
                {"host", host.host}, {"env", launcher.env}, {"argv", launcher.argv}};
            if (const auto& file = plan.launcher_file) {
                document["launcher"]["file"] = {{"path", file->path}, {"text", file->text}};
            }
        }
        document["hosts"].push_back(
            {{"host", host.host}, {"slots", host.slots}, {"starter", host.starter}});
        for (const auto& rank : host.ranks) {
            auto gpus = Json::array();
            for (const auto& gpu : rank.gpus) {
                gpus.push_back({{"index", gpu.index}, {"uuid", gpu.uuid}});
            }
            document["ranks"].push_back({{"rank", rank.rank},
                                         {"host", host.host},
                                         {"local_rank", rank.local_rank},
                                         {"local_size", rank.local_size},
                                         {"cross_rank", rank.cross_rank},
                                         {"cross_size", rank.cross_size},
                                         {"gpus", std::move(gpus)},
                                         {"cpus", rank.cpus},
                                         {"env", added_environment(plan.job, host, rank)},
                                         {"cwd", cwd_of(plan.job, rank)},
                                         {"argv", argv_of(plan.job, rank)}});
        }
    }
    for (const auto& agent : agents) {
        document["agents"].push_back({{"host", agent.host}, {"way", agent.way}});
    }
    return dump(document);
}

std::string print_environments(const LaunchPlan& plan, const Environment& own) {
    Json document{{"version", kFormatVersion},
                  {"job_id", plan.job.id},
                  {"hosts", Json::array()},
                  {"ranks", Json::array()}};
    for (const auto& host : plan.hosts) {
        auto common = common_environment(plan.job, host);
        if (host.inherits_env) {
            common.insert(own.begin(), own.end());  // keeps what is there
        }
        document["hosts"].push_back({{"host", host.host}, {"env", to_json(common)}});
        for (const auto& rank : host.ranks) {
            document["ranks"].push_back(
                {{"rank", rank.rank}, {"host", host.host}, {"env", to_json(rank.env)}});
        }
    }
    return dump(document);
}

}  // namespace hvd::launch
