// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/text.hpp"
#include "launcher/cli/config_file.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <boost/program_options.hpp>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

namespace hvd::launch {
namespace {

namespace po = boost::program_options;
using po::command_line_style::allow_guessing;
using po::command_line_style::allow_long_disguise;
using po::command_line_style::allow_sticky;
using po::command_line_style::short_allow_adjacent;
using po::command_line_style::unix_style;

/// Reads `-np 4` and `-hostfile F` as the original does; abbreviations are errors.
constexpr int kStyle =
    (unix_style & ~allow_guessing & ~allow_sticky & ~short_allow_adjacent) | allow_long_disguise;

/// As in the original, only Kubeflow's takes the place of our ssh: what else is written there
/// ("ssh : rsh") is meant for mpirun.
constexpr std::string_view kKubeflowShell = "/etc/mpi/kubexec.sh";

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

Status nothing(Draft& /*draft*/, std::string_view /*value*/) {
    return ok();
}

std::vector<FlagSection> all_sections() {
    std::vector<FlagSection> sections;
    for (auto* const make : {job_flags, host_flags, remote_flags, join_flags, placement_flags,
                             environment_flags, output_flags, time_flags, failure_flags}) {
        sections.push_back(make());
    }
    for (auto& section : tunable_flags()) {
        sections.push_back(std::move(section));
    }
    sections.push_back(doctor_flags());
    sections.push_back(mpi_flags());
    sections.push_back(later_flags());
    sections.push_back({"About",
                        {{{"-h", "--help"}, "", "print this text", nothing},
                         {{"-v", "--version"}, "", "print the version alone", nothing},
                         {{"-cb", "--check-build"},
                          "",
                          "print which frameworks, controllers and operations are there, the "
                          "frameworks of the Python beside horovodrun in a virtual environment, "
                          "else of the one in PATH; with --verbose also where they are",
                          nothing}}});
    return sections;
}

/// "--np=4" → "--np".
std::string_view without_value(std::string_view token) {
    return token.substr(0, token.find('='));
}

/// "--hostfile" and "-hostfile" → "hostfile": one name to the parser.
std::string_view bare_name(std::string_view name) {
    return name.substr(name.find_first_not_of('-'));
}

/// Finds a flag by its name.
class FlagTable {
public:
    /// `sections` outlive it.
    explicit FlagTable(const std::vector<FlagSection>& sections) : sections_(sections) {
        for (const auto& section : sections) {
            for (const auto& flag : section.flags) {
                for (const auto name : flag.names) {
                    by_name_.emplace(bare_name(name), &flag);
                }
            }
        }
    }

    /// By the name without dashes. nullptr: there is none.
    [[nodiscard]] const Flag* find(std::string_view bare_name) const {
        const auto entry = by_name_.find(bare_name);
        return entry == by_name_.end() ? nullptr : entry->second;
    }

    /// By a word of the command line. One letter has one dash, a longer name has one or two.
    [[nodiscard]] const Flag* find_word(std::string_view word) const {
        const bool has_two_dashes = word.starts_with("--");
        const auto name = without_value(word).substr(has_two_dashes ? 2 : 1);
        return has_two_dashes && name.size() == 1 ? nullptr : find(name);
    }

    [[nodiscard]] Error refuse(std::string_view word) const {
        return unknown_flag(sections_, word);
    }

private:
    const std::vector<FlagSection>& sections_;
    std::unordered_map<std::string_view, const Flag*> by_name_;
};

/// The command line in its two parts.
struct Words {
    std::vector<std::string> flags;      // with their values
    std::vector<std::string> spellings;  // of each flag, as it was typed
    std::vector<std::string> command;
};

Error missing_value(std::string_view spelled, const Flag& flag) {
    return wrong(std::string(spelled) + ": its value is missing; write " + std::string(spelled) +
                 " " + std::string(flag.value_name));
}

/// The first word that is neither a flag nor the value of one starts the user's command, and so
/// does "--". From there on nothing is ours, even when it looks like one of our flags.
Result<Words> split_words(const FlagTable& table, const std::vector<std::string>& arguments) {
    Words words;
    auto next = arguments.begin();
    while (next != arguments.end() && next->starts_with('-') && *next != "--") {
        const auto spelled = without_value(*next);
        const bool has_value = spelled.size() != next->size();
        const auto* flag = table.find_word(*next);
        if (flag == nullptr) {
            return table.refuse(*next);
        }
        if (has_value && flag->value_name.empty()) {
            return wrong(std::string(spelled) + " takes no value, but got " +
                         next->substr(spelled.size()));
        }
        if (has_value && spelled.size() + 1 == next->size()) {
            return missing_value(spelled, *flag);
        }
        words.spellings.emplace_back(spelled);
        if (has_value && spelled.size() == 2) {  // of one letter, after which '=' is a value's
            words.flags.emplace_back(spelled);
            words.flags.push_back(next++->substr(spelled.size() + 1));
            continue;
        }
        words.flags.push_back(*next++);
        if (has_value || flag->value_name.empty()) {
            continue;
        }
        if (next == arguments.end() ||
            (next->starts_with('-') && table.find_word(*next) != nullptr)) {
            return missing_value(spelled, *flag);
        }
        words.flags.push_back(*next++);
    }
    if (next != arguments.end() && *next == "--") {
        ++next;
    }
    words.command.assign(next, arguments.end());
    return words;
}

/// To Boost.Program_options, which gives a short name to the first long one of its flag.
void declare(const Flag& flag, po::options_description& declared) {
    std::string short_name;
    std::set<std::string> long_names;
    for (const auto name : flag.names) {
        const std::string bare(bare_name(name));
        if (bare.size() == 1) {
            short_name = "," + bare;
        } else {
            long_names.insert(bare);
        }
    }
    for (const auto& name : long_names) {
        const auto declaration = name + std::exchange(short_name, {});
        if (flag.value_name.empty()) {
            declared.add_options()(declaration.c_str(), "");
        } else {
            declared.add_options()(declaration.c_str(), po::value<std::string>(), "");
        }
    }
}

/// Only the flags that occur: to declare all of them takes longer than the rest of the parsing.
po::options_description declare_used(const FlagTable& table, const Words& words) {
    std::set<const Flag*> used;
    for (const auto& spelled : words.spellings) {
        used.insert(table.find_word(spelled));
    }
    po::options_description declared;
    for (const auto* flag : used) {
        declare(*flag, declared);
    }
    return declared;
}

Result<std::vector<po::option>> parse_flags(const FlagTable& table, const Words& words) {
    try {
        const auto declared = declare_used(table, words);
        auto parsed = po::command_line_parser(words.flags).options(declared).style(kStyle).run();
        HVD_ASSERT(parsed.options.size() == words.spellings.size(), "each flag is read once");
        return std::move(parsed.options);
    } catch (const po::error& error) {  // this library reports by throwing; nothing above us does
        return wrong(error.what());
    }
}

Status apply(const po::option& option,
             const std::string& spelling,
             const Flag& flag,
             Draft& draft) {
    const std::string value = option.value.empty() ? "" : option.value.front();
    if (auto status = flag.apply(draft, value); !status) {
        const auto subject = spelling + (flag.value_name.empty() ? "" : " " + value);
        return std::move(status).error().context(subject);
    }
    return ok();
}

/// Handshakes of many hosts share this machine's CPUs, or wait for their turn.
std::chrono::milliseconds default_start_timeout(std::size_t hosts, int concurrency) {
    constexpr std::size_t kFewHosts = 64;
    constexpr std::chrono::milliseconds kFew(30'000);
    constexpr std::chrono::milliseconds kEachMore(100);
    constexpr std::chrono::milliseconds kRound(5'000);
    const auto in_flight = static_cast<std::size_t>(concurrency);
    const auto more = static_cast<long>(hosts - std::min(hosts, kFewHosts));
    const auto more_rounds = static_cast<long>(hosts == 0 ? 0 : (hosts - 1) / in_flight);
    return kFew + more * kEachMore + more_rounds * kRound;
}

Status read_start_timeout(Draft& draft) {
    auto limit = draft.start_timeout.value_or(std::chrono::milliseconds(0));
    if (const auto own = find(draft.environment, kStartTimeout).value_or("");
        limit.count() == 0 && !own.empty()) {
        auto value = whole_number(trim(own), 1, kLongestSeconds);  // as the runtime reads it
        if (!value) {
            return std::move(value).error().context(std::string(kStartTimeout) + "=" + own);
        }
        limit = std::chrono::seconds(*value);
    }
    if (limit.count() != 0) {  // 0 counts as unset, as in the original
        draft.request.start_timeout = limit;
        draft.join.patience = limit;
    } else if (draft.request.listen) {
        draft.request.start_timeout = draft.join.patience;  // somebody has to type elsewhere
    } else {
        draft.request.start_timeout =
            default_start_timeout(draft.request.hosts.size(), draft.request.remote.concurrency);
    }
    return ok();
}

/// Completes the variables of the ranks.
Status read_config(Draft& draft) {
    ConfigFile config;
    if (draft.config_file) {
        HVD_TRY(config, read_config_file(*draft.config_file));
    }
    draft.request.mpi.is_wanted |= config.wants_mpi && !draft.is_native;
    auto exported = export_tunables(draft.tunables, config.tunables, draft.environment);
    draft.request.tunables.merge(exported.variables);
    if (!exported.note.empty()) {
        draft.request.notes.push_back(std::move(exported.note));
    }
    return check_variables(draft);
}

void note_idle_env_pass(Draft& draft) {
    if (draft.request.hosts.empty() && !draft.request.listen && !draft.request.env_pass.empty() &&
        !draft.request.env_clean) {
        draft.request.notes.emplace_back(
            "--env-pass has no effect here without --env-clean: every variable is passed on");
    }
}

/// Checks what concerns more than one flag at a time.
Status finish(Draft& draft) {
    HVD_TRY_STATUS(check_controllers(draft));
    if (const auto agent = find(draft.environment, kRemoteShellVariable);
        agent == kKubeflowShell && draft.request.remote.shell.empty()) {
        draft.request.remote.shell = *agent;
    }
    HVD_TRY_STATUS(read_config(draft));  // says whether there will be an mpirun
    HVD_TRY_STATUS(read_hosts(draft));
    HVD_TRY_STATUS(check_remote_shell(draft.request));
    HVD_TRY_STATUS(check_identity(draft.request));
    HVD_TRY_STATUS(read_start_timeout(draft));
    note_idle_env_pass(draft);
    HVD_TRY_STATUS(check_join(draft));
    HVD_TRY_STATUS(check_ports(draft));
    HVD_TRY_STATUS(check_mpi(draft));
    return draft.is_doctor ? check_doctor(draft) : check_job(draft);
}

/// The task of another launcher that the command should become, or the line of an mpirun that it
/// is; nothing for a job of our own.
Result<std::optional<Parsed>> find_wrapped(Draft& draft,
                                           const std::vector<std::string>& spellings) {
    HVD_TRY(const auto task, find_own_task(draft));
    if (task) {
        HVD_TRY_STATUS(check_task(*task, spellings));
        HVD_TRY_STATUS(read_config(draft));
        return std::optional<Parsed>(RunTask{.task = *task, .job = std::move(draft.request)});
    }
    if (!draft.request.processes && is_mpirun(draft.request.command.front())) {
        HVD_TRY_STATUS(check_line(draft.request.command.front(), spellings));
        return std::optional<Parsed>(RunLine{.line = std::move(draft.request.command)});
    }
    return std::optional<Parsed>();
}

}  // namespace

Result<Parsed> parse_command_line(const std::vector<std::string>& arguments,
                                  const Environment& environment) {
    if (!arguments.empty() && arguments.front() == kTimeline) {
        return parse_timeline_command({arguments.begin() + 1, arguments.end()});
    }
    const auto sections = all_sections();
    const FlagTable table(sections);
    Draft draft;
    draft.is_doctor = !arguments.empty() && arguments.front() == kDoctor;
    HVD_TRY(auto words,
            split_words(table, {arguments.begin() + (draft.is_doctor ? 1 : 0), arguments.end()}));
    HVD_TRY(const auto options, parse_flags(table, words));

    bool check_build = false;
    for (const auto& option : options) {
        if (option.string_key == "help") {
            return Parsed(PrintAndExit{help_text(sections)});
        }
        if (option.string_key == "version") {
            return Parsed(PrintAndExit{HVD_VERSION "\n"});
        }
        check_build = check_build || table.find(option.string_key) == table.find("check-build");
    }
    draft.environment = environment;
    draft.request.command = std::move(words.command);
    for (std::size_t index = 0; index < options.size(); ++index) {
        const auto& option = options[index];
        HVD_TRY_STATUS(
            apply(option, words.spellings[index], *table.find(option.string_key), draft));
    }
    if (check_build) {
        return Parsed(CheckBuild{.verbose = draft.request.verbose});
    }
    if (draft.is_joining) {
        HVD_TRY_STATUS(check_joining(draft, words.spellings));
        HVD_TRY_STATUS(read_start_timeout(draft));
        return Parsed(std::move(draft.join));
    }
    if (!draft.is_doctor && !draft.request.command.empty()) {
        HVD_TRY(auto wrapped, find_wrapped(draft, words.spellings));
        if (wrapped) {
            return *std::move(wrapped);
        }
    }
    HVD_TRY_STATUS(finish(draft));
    if (draft.is_doctor) {
        return Parsed(Examine{.job = std::move(draft.request), .json = draft.json});
    }
    return Parsed(std::move(draft.request));
}

}  // namespace hvd::launch
