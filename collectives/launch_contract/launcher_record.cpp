// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/launcher_record.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"
#include "collectives/launch_contract/launcher_variables.hpp"
#include "collectives/launch_contract/pmi_server.hpp"
#include "collectives/launch_contract/scheduler_pmi.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace hvd::coll {
namespace {

/// The value that horovodrun gives to it is about its own ranks.
constexpr std::string_view kController = "HOROVOD_CONTROLLER";

/// No variable, but in the record like one.
constexpr std::string_view kPmiServer = "PMI_SERVER";

std::vector<std::string_view> names_of(const LauncherVariables& variables) {
    std::vector<std::string_view> names{variables.nodes, variables.tasks_of_nodes,
                                        variables.server};
    for (const auto* group :
         {&variables.signs, &variables.rank, &variables.size, &variables.local_rank,
          &variables.local_size, &variables.node, &variables.job}) {
        names.insert(names.end(), group->begin(), group->end());
    }
    std::erase(names, std::string_view());
    return names;
}

/// As in a URL: a name of a job may be any text.
std::string escape(std::string_view value) {
    constexpr std::string_view kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string text;
    for (const char character : value) {
        if (kPlain.find(character) != std::string_view::npos) {
            text += character;
            continue;
        }
        const auto byte = static_cast<unsigned char>(character);
        text += {'%', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
    }
    return text;
}

/// A record, parsed: variables with escaped values.
class Record {
public:
    explicit Record(std::string_view text) {
        for (const auto entry : split(text, ';')) {
            const auto end = entry.find('=');
            if (end != std::string_view::npos) {
                escaped_.emplace(entry.substr(0, end), entry.substr(end + 1));
            }
        }
    }

    [[nodiscard]] bool has(std::string_view name, std::string_view value) const {
        const auto found = escaped_.find(name);
        return found != escaped_.end() && found->second == escape(value);
    }

    /// Whether it is set to something else than horovodrun left.
    [[nodiscard]] bool is_changed(std::string_view name, const Environment& environment) const {
        const auto value = find(environment, name);
        return value && !has(name, *value);
    }

private:
    Environment escaped_;
};

/// Whether this launcher has started the process, or a process above it, inside of the rank.
bool is_inside(const Environment& environment,
               const LauncherVariables& variables,
               const Record& record,
               std::optional<pid_t> pmi_server) {
    const auto is_set = [&](std::string_view name) {
        return !name.empty() && environment.contains(name);
    };
    if (!std::ranges::any_of(variables.signs, is_set) ||
        (variables.launcher == Launcher::pmix && has_pmix_of_singleton(environment))) {
        return false;
    }
    if (variables.launcher == Launcher::pmi && pmi_server &&
        !record.has(kPmiServer, std::to_string(*pmi_server))) {
        return true;
    }
    return std::ranges::any_of(names_of(variables), [&](std::string_view name) {
        return record.is_changed(name, environment);
    });
}

}  // namespace

std::string record_launcher_variables(
    const std::function<std::optional<std::string>(std::string_view)>& find_variable,
    std::optional<pid_t> pmi_server) {
    Environment escaped;  // each once: launchers share some
    const auto note = [&](std::string_view name) {
        if (const auto value = find_variable(name)) {
            escaped.emplace(name, escape(*value));
        }
    };
    note(kController);
    for (const auto& variables : kLauncherVariables) {
        std::ranges::for_each(names_of(variables), note);
    }
    if (pmi_server) {
        escaped.emplace(kPmiServer, std::to_string(*pmi_server));
    }
    std::vector<std::string> entries;
    for (const auto& [name, value] : escaped) {
        entries.push_back(std::string(name).append("=").append(value));
    }
    return join(entries, ";");
}

Environment innermost_environment(Environment environment, std::optional<pid_t> pmi_server) {
    const auto text = find(environment, kEnvLauncherVariables);
    if (!text) {
        return environment;
    }
    const Record record(*text);
    std::vector<std::string_view> own;  // of the launchers inside of the rank
    for (const auto& variables : kLauncherVariables) {
        if (is_inside(environment, variables, record, pmi_server)) {
            const auto names = names_of(variables);
            own.insert(own.end(), names.begin(), names.end());
        }
    }
    if (own.empty()) {
        return environment;
    }
    const bool is_chosen = !trim(find(environment, kEnvLauncher).value_or("")).empty();
    std::erase_if(environment, [&](const auto& entry) {
        const auto& [name, value] = entry;
        return is_of_contract(name) ||
               (!is_chosen && std::ranges::find(own, name) == own.end() && record.has(name, value));
    });
    return environment;
}

Environment current_innermost_environment() {
    auto environment = current_environment();
    const auto pmi_server = find_pmi_server(environment);
    return innermost_environment(std::move(environment), pmi_server);
}

}  // namespace hvd::coll
