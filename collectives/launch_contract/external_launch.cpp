// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/external_launch.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"
#include "collectives/launch_contract/launcher_variables.hpp"
#include "collectives/launch_contract/scheduler_pmi.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace hvd::coll {
namespace {

constexpr std::string_view kFluxNodes = "FLUX_JOB_NNODES";
constexpr std::string_view kSlurmTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

std::optional<std::string> first_of(const Environment& environment, const Names& names) {
    for (const auto name : names) {
        if (auto value = find(environment, name); value && !name.empty()) {
            return value;
        }
    }
    return {};
}

/// The entry of `node` in "4(x2),2", which stands for 4,4,2.
std::optional<int> tasks_of_node(std::string_view text, int node) {
    for (const auto part : split(text, ',')) {
        const auto bracket = part.find("(x");
        int repeats = 1;
        if (bracket != std::string_view::npos) {
            if (!part.ends_with(')')) {
                return {};
            }
            const auto count =
                parse_number<int>(part.substr(bracket + 2, part.size() - bracket - 3));
            if (!count || *count < 1) {
                return {};
            }
            repeats = *count;
        }
        const auto tasks = parse_number<int>(part.substr(0, bracket));
        if (!tasks) {
            return {};
        }
        if (node < repeats) {
            return tasks;
        }
        node -= repeats;
    }
    return {};
}

/// Reads one launcher's variables; keeps what was asked for and what was wrong with it, so that a
/// user sees all of it at once.
class Decoder {
public:
    explicit Decoder(const Environment& environment) : environment_(environment) {}

    /// Names a number that need not be there.
    std::optional<int> number(const Names& names, int least) {
        for (const auto name : names) {
            note(name);
        }
        for (const auto name : names) {
            const auto text = name.empty() ? std::nullopt : find(environment_, name);
            if (!text) {
                continue;
            }
            const auto value = parse_number<int>(*text);
            if (!value || *value < least) {
                complain(std::string(name) + " is not a whole number of at least " +
                         std::to_string(least));
                return {};
            }
            return value;
        }
        return {};
    }

    int required(const Names& names, int least) {
        if (!first_of(environment_, names)) {
            complain(std::string(names[0]) + " is not set");
        }
        return number(names, least).value_or(least);
    }

    void require(std::string_view name) {
        note(name);
        if (!find(environment_, name)) {
            complain(std::string(name) + " is not set");
        }
    }

    void note(std::string_view name) {
        if (!name.empty()) {
            names_.push_back(name);
        }
    }

    void complain(std::string complaint) { complaints_.push_back(std::move(complaint)); }

    [[nodiscard]] bool has_failed() const noexcept { return !complaints_.empty(); }

    [[nodiscard]] Error error(const LauncherVariables& variables) const {
        std::vector<std::string> values;
        for (const auto name : names_) {
            const auto value = find(environment_, name);
            values.push_back(std::string(name) + (value ? "=" + *value : " unset"));
        }
        return {Errc::invalid_argument,
                "the variables of " + std::string(describe(variables.launcher)) +
                    " do not describe a rank: " + join(complaints_, "; ") + " (" +
                    join(values, ", ") + "); HOROVOD_LAUNCHER names another launcher, or none"};
    }

private:
    const Environment& environment_;
    std::vector<std::string_view> names_;
    std::vector<std::string> complaints_;
};

std::optional<int> read_local_size(Decoder& decoder,
                                   const Environment& environment,
                                   const LauncherVariables& variables,
                                   const ExternalLaunch& launch) {
    if (variables.launcher == Launcher::flux) {
        const auto nodes = decoder.number({kFluxNodes}, 1);
        return nodes == 1 ? std::optional(launch.size) : std::nullopt;
    }
    if (variables.launcher == Launcher::slurm) {
        decoder.note(kSlurmTasksPerNode);
        const auto text = find(environment, kSlurmTasksPerNode);
        const auto tasks = text ? tasks_of_node(*text, launch.node.value_or(0)) : std::nullopt;
        if (text && !tasks) {
            decoder.complain(std::string(kSlurmTasksPerNode) + " has no tasks for node " +
                             std::to_string(launch.node.value_or(0)));
        }
        return tasks;
    }
    return decoder.number(variables.local_size, 1);
}

void check(Decoder& decoder, const ExternalLaunch& launch) {
    const auto require_below = [&](int part, int whole, std::string_view what) {
        if (part >= whole) {
            decoder.complain(std::string(what) + " " + std::to_string(part) + " of " +
                             std::to_string(whole) + " cannot be");
        }
    };
    if (launch.size != 0) {
        require_below(launch.rank, launch.size, "rank");
    }
    if (launch.local_rank && launch.local_size) {
        require_below(*launch.local_rank, *launch.local_size, "local rank");
    }
    if (launch.local_size && *launch.local_size > launch.size) {
        decoder.complain("a host with " + std::to_string(*launch.local_size) + " of " +
                         std::to_string(launch.size) + " ranks cannot be");
    }
}

/// Without a name of the job, the task's connection to the launcher must do, else the rank's
/// variable.
std::string job_entry(const Environment& environment, const LauncherVariables& variables) {
    const auto named =
        variables.launcher == Launcher::slurm ? std::string_view() : variables.job[0];
    for (const auto name : {named, variables.server}) {
        if (const auto value = find(environment, name); value && !name.empty()) {
            return std::string(name) + "=" + *value;
        }
    }
    return std::string(variables.rank[0]) + "=";
}

Result<ExternalLaunch> read(const Environment& environment, const LauncherVariables& variables) {
    Decoder decoder(environment);
    ExternalLaunch launch{.launcher = variables.launcher};
    launch.rank = decoder.required(variables.rank, 0);
    if (variables.size[0].empty()) {
        launch.size = 0;
        decoder.require(variables.job[0]);  // without it a library would make a world of one
    } else {
        launch.size = decoder.required(variables.size, 1);
    }
    launch.node = decoder.number(variables.node, 0);
    launch.local_rank = decoder.number(variables.local_rank, 0);
    launch.local_size = read_local_size(decoder, environment, variables, launch);
    if (!decoder.has_failed()) {
        check(decoder, launch);
    }
    if (decoder.has_failed()) {
        return decoder.error(variables);
    }
    std::vector<std::string> job;
    for (const auto name : variables.job) {
        if (const auto value = find(environment, name); value && !name.empty()) {
            job.push_back(*value);
        }
    }
    launch.job = std::string(variables.word) + ":" + join(job, "/");
    launch.job_entry = job_entry(environment, variables);
    return launch;
}

/// Whether these variables are not a launcher's of their own, but come with something else.
bool is_of_another(const Environment& environment, Launcher launcher) {
    return (launcher == Launcher::pmi && has_pmi_of_scheduler(environment)) ||
           (launcher == Launcher::pmix &&
            (has_pmix_of_scheduler(environment) || has_pmix_of_singleton(environment)));
}

enum class Controller { automatic, mpi, gloo };

Result<Controller> read_controller(const Environment& environment) {
    const auto text = find(environment, "HOROVOD_CONTROLLER").value_or("");
    const auto word = to_lower(trim(text));
    if (word.empty() || word == "auto") {
        return Controller::automatic;
    }
    if (word == "mpi") {
        return Controller::mpi;
    }
    if (word == "gloo") {
        return Controller::gloo;
    }
    return Error{Errc::invalid_argument,
                 "HOROVOD_CONTROLLER='" + text + "': expected mpi, gloo or auto"};
}

bool is_wanted(const Environment& environment,
               const LauncherVariables& variables,
               Controller controller) {
    const bool has_pmi = find(environment, "PMI_FD") || find(environment, "PMIX_NAMESPACE");
    const bool is_mpi =
        variables.is_mpi ||
        (controller == Controller::mpi && has_pmi &&
         (variables.launcher == Launcher::slurm || variables.launcher == Launcher::flux));
    return controller == Controller::automatic || is_mpi == (controller == Controller::mpi);
}

/// An error unless it is known to have started this process alone.
Status check_left_out(const Environment& environment,
                      const LauncherVariables& variables,
                      Controller controller) {
    HVD_TRY(const auto launch, read(environment, variables));
    if (launch.size == 1) {
        return ok();
    }
    return Error{
        Errc::invalid_argument,
        std::string("HOROVOD_CONTROLLER=") + (controller == Controller::mpi ? "mpi" : "gloo") +
            " leaves out " + std::string(describe(launch.launcher)) +
            ", which has started this process as rank " + std::to_string(launch.rank) +
            (launch.size == 0 ? "" : " of " + std::to_string(launch.size)) +
            ", and no other launcher is there: unset it, or set HOROVOD_LAUNCHER=none for a world "
            "of one"};
}

Result<ExternalLaunch> read_named(const Environment& environment, std::string_view word) {
    const auto* const variables =
        std::ranges::find(kLauncherVariables, word, &LauncherVariables::word);
    return variables == kLauncherVariables.end() ? ExternalLaunch{} : read(environment, *variables);
}

}  // namespace

std::string_view describe(Launcher launcher) noexcept {
    switch (launcher) {
        case Launcher::horovodrun: return "horovodrun";
        case Launcher::ompi: return "Open MPI's mpirun";
        case Launcher::pmix: return "a launcher with PMIx";
        case Launcher::pmi: return "mpiexec (PMI)";
        case Launcher::torchrun: return "torchrun";
        case Launcher::flux: return "flux run";
        case Launcher::jsrun: return "jsrun";
        case Launcher::slurm: return "srun";
        case Launcher::none: return "no launcher";
    }
    return "?";
}

Result<ExternalLaunch> decode_external_launch(const Environment& environment) {
    HVD_TRY(const auto word, chosen_launcher(environment));
    if (!word.empty()) {
        return read_named(environment, word);
    }
    if (has_launch_contract(environment)) {
        return ExternalLaunch{.launcher = Launcher::horovodrun};
    }
    HVD_TRY(const auto controller, read_controller(environment));
    const LauncherVariables* left_out = nullptr;
    for (const auto& variables : kLauncherVariables) {
        if (!first_of(environment, variables.signs) ||
            is_of_another(environment, variables.launcher)) {
            continue;
        }
        if (is_wanted(environment, variables, controller)) {
            return read(environment, variables);
        }
        if (left_out == nullptr) {
            left_out = &variables;
        }
    }
    if (left_out != nullptr) {
        HVD_TRY_STATUS(check_left_out(environment, *left_out, controller));
    }
    return ExternalLaunch{};
}

std::optional<ExternalLaunch> decode_mpi_launch(const Environment& environment) {
    for (const auto& variables : kLauncherVariables) {
        if (variables.is_mpi && first_of(environment, variables.signs) &&
            !is_of_another(environment, variables.launcher)) {
            auto launch = read(environment, variables);
            return launch ? std::optional(std::move(launch).value()) : std::nullopt;
        }
    }
    return {};
}

}  // namespace hvd::coll
