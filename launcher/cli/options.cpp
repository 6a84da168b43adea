// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "launcher/cli/config_file.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"
#include "launcher/hosts/task.hpp"

#include <boost/program_options.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <sys/stat.h>

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

/// One flag as it was typed.
struct Given {
    const Flag* flag;
    std::string spelling;
    std::string value;
};

/// The command line in its two parts.
struct Words {
    std::vector<Given> flags;
    std::vector<std::string> command;
};

/// All names are declared as long ones to Boost.Program_options, also the one-character ones,
/// because its one-character options take no value after '='.
void declare(const Flag& flag, po::options_description& declared) {
    for (const auto& name : flag.names) {
        const std::string bare(bare_name(name));
        if (bare.empty() || std::ranges::find(flag.names, bare, bare_name) != &name) {
            continue;  // -hostfile and --hostfile are one
        }
        if (flag.value.empty()) {
            declared.add_options()(bare.c_str(), "");
        } else {
            declared.add_options()(bare.c_str(), po::value<std::string>(), "");
        }
    }
}

po::options_description declare_flags() {
    po::options_description declared;
    for (const auto& group : flag_groups()) {
        for (const auto& flag : group.flags) {
            declare(flag, declared);
        }
    }
    return declared;
}

Error bad_value(std::string_view word) {
    const std::string spelled(without_value(word));
    const auto* const flag = find_flag(word);
    if (flag == nullptr) {
        return unknown_flag(word);
    }
    return wrong(flag->value.empty() ? spelled + " takes no value, but got " +
                                           std::string(word.substr(spelled.size()))
                                     : spelled + ": its value is missing; write " + spelled + " " +
                                           std::string(flag->value));
}

/// The first word that is neither a flag nor the value of one begins the user's command, and so
/// does "--". horovodrun reads nothing after it, even where it looks like a flag.
Result<Words> read_words(const std::vector<std::string>& arguments) {
    std::size_t place = 0;  // of the word that is parsed
    // Is also called for each value, alone.
    const auto stop_at_command = [&](std::vector<std::string>& rest) {
        place = arguments.size() - rest.size();
        if (rest.size() > 1 &&
            (rest[0].size() < 2 || !rest[0].starts_with('-') || rest[0] == "--")) {
            rest.clear();
        }
        return std::vector<po::option>();
    };
    std::vector<po::option> options;
    try {
        options = po::command_line_parser(arguments)
                      .options(declare_flags())
                      .style(kStyle)
                      .extra_style_parser(stop_at_command)
                      .allow_unregistered()
                      .run()
                      .options;
    } catch (const po::error&) {  // this library reports by throwing; nothing above us does
        return bad_value(arguments[place]);
    }

    Words words;
    auto next = arguments.begin();
    for (const auto& option : options) {
        if (option.string_key.empty()) {
            break;  // the only word of a command
        }
        const auto* const flag = find_flag(*next);
        if (flag == nullptr) {
            return unknown_flag(*next);
        }
        if (option.original_tokens.size() == 2 && find_flag(*(next + 1)) != nullptr) {
            return bad_value(*next);
        }
        words.flags.push_back({flag, std::string(without_value(*next)),
                               option.value.empty() ? "" : option.value.front()});
        next += static_cast<std::ptrdiff_t>(option.original_tokens.size());
    }
    if (next != arguments.end() && *next == "--") {
        ++next;
    }
    words.command.assign(next, arguments.end());
    return words;
}

Status apply(const Given& given, Draft& draft) {
    const auto& flag = *given.flag;
    auto status = is_setting(flag) ? add_setting(draft.settings, flag, given.value)
                                   : flag.apply(draft, given.value);
    const auto subject = given.spelling + (flag.value.empty() ? "" : " " + given.value);
    return status ? ok() : std::move(status).error().context(subject);
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
        auto value = found(whole_number(trim(own), 1, kLongestSeconds));  // as the runtime reads it
        if (!value) {
            return std::move(value).error().context(std::string(kStartTimeout) + "=" + own);
        }
        limit = std::chrono::seconds(*value);
    }
    if (limit.count() != 0) {  // 0 counts as unset, as in the original
        draft.request.limits.start_timeout = limit;
        draft.join.timeout = limit;
    } else if (draft.request.hosts.listen) {
        draft.request.limits.start_timeout = draft.join.timeout;  // somebody has to type elsewhere
    } else {
        draft.request.limits.start_timeout =
            default_start_timeout(draft.request.hosts.list.size(), draft.request.ssh.concurrency);
    }
    return ok();
}

/// Completes the variables of the ranks.
Status read_config(Draft& draft) {
    ConfigFile config;
    if (draft.config_file) {
        HVD_TRY(config, found(read_config_file(*draft.config_file)));
    }
    draft.request.mpi.is_wanted |= config.wants_mpi && !draft.is_native;
    auto exported = export_settings(draft.settings, config.settings, draft.environment);
    draft.request.environment.tunables.merge(exported.variables);
    if (!exported.note.empty()) {
        draft.request.report.notes.push_back(std::move(exported.note));
    }
    return found(check_variables(draft));
}

void note_idle_env_pass(Draft& draft) {
    if (draft.request.hosts.list.empty() && !draft.request.hosts.listen &&
        !draft.request.environment.pass.empty() && !draft.request.environment.is_clean) {
        draft.request.report.notes.emplace_back(
            "--env-pass has no effect here without --env-clean: every variable is passed on");
    }
}

/// The socket that horovod.run leaves to horovodrun.
Status read_caller(Draft& draft) {
    const auto text = find(draft.environment, coll::kEnvCaller);
    if (!text) {
        return ok();
    }
    draft.request.caller = parse_number<int>(*text);
    struct stat file {};
    if (!draft.request.caller || ::fstat(*draft.request.caller, &file) != 0 ||
        !S_ISSOCK(file.st_mode)) {
        return Error{Errc::invalid_argument,
                     std::string(coll::kEnvCaller) + "=" + *text +
                         ": not the number of an open socket; horovod.run sets it and nobody else: "
                         "unset it"};
    }
    return ok();
}

/// Checks what concerns more than one flag at a time.
Status finish(Draft& draft) {
    HVD_TRY_STATUS(found(read_caller(draft)));
    HVD_TRY_STATUS(check_controllers(draft));
    if (const auto agent = find(draft.environment, kRemoteShellVariable);
        agent == kKubeflowShell && draft.request.ssh.remote_shell.empty()) {
        draft.request.ssh.remote_shell = {*agent};
    }
    HVD_TRY_STATUS(read_config(draft));  // says whether there will be an mpirun
    HVD_TRY_STATUS(read_hosts(draft));
    if (draft.request.caller && draft.request.hosts.list.empty() && !draft.request.hosts.listen) {
        draft.request.processes = draft.request.processes.value_or(1);  // horovod.run's default
    }
    HVD_TRY_STATUS(check_remote_shell(draft.request));
    HVD_TRY_STATUS(check_identity(draft.request));
    HVD_TRY_STATUS(read_start_timeout(draft));
    note_idle_env_pass(draft);
    HVD_TRY_STATUS(check_join(draft));
    HVD_TRY_STATUS(check_ports(draft));
    HVD_TRY_STATUS(check_mpi(draft));
    draft.request.output.prefix =
        draft.prefix.value_or(draft.prefix_timestamp ? LinePrefix::stamped() : LinePrefix());
    return draft.is_doctor ? check_doctor(draft) : check_job(draft);
}

/// The task of another launcher that the command should become, or the line of an mpirun that it
/// is; nothing for a job of horovodrun's own.
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

bool is_given(const Words& words, std::string_view name) {
    return std::ranges::find(words.flags, find_flag(name), &Given::flag) != words.flags.end();
}

/// The page of --help or --version, which win over all other flags.
std::optional<std::string> find_page(const Words& words, bool is_doctor, std::size_t columns) {
    if (is_given(words, "--help")) {
        const auto topic = words.command.empty() ? std::string() : words.command.front();
        if (is_doctor || topic == kDoctor) {
            return doctor_help(columns);
        }
        return topic == "all"          ? full_help(columns)
               : topic == "markdown"   ? manual_chapter()
               : topic == "completion" ? completion_table()
                                       : short_help(columns);
    }
    if (is_given(words, "--version") && !is_given(words, "--check-build")) {
        return HVD_VERSION "\n";
    }
    return std::nullopt;
}

}  // namespace

Result<Parsed> parse_command_line(const std::vector<std::string>& arguments,
                                  const Environment& environment,
                                  std::size_t columns) {
    if (!arguments.empty() && arguments.front() == kTimeline) {
        return parse_timeline_command({arguments.begin() + 1, arguments.end()});
    }
    Draft draft{.environment = environment};
    draft.is_doctor = !arguments.empty() && arguments.front() == kDoctor;
    HVD_TRY(auto words,
            read_words({arguments.begin() + (draft.is_doctor ? 1 : 0), arguments.end()}));
    if (auto page = find_page(words, draft.is_doctor, columns)) {
        return Parsed(PrintAndExit{*std::move(page)});
    }
    draft.request.command = std::move(words.command);
    for (const auto& given : words.flags) {
        HVD_TRY_STATUS(apply(given, draft));
    }
    if (draft.is_check_build) {
        return Parsed(
            CheckBuild{.verbose = draft.request.report.is_verbose || is_given(words, "-v"),
                       .json = draft.json});
    }
    std::vector<std::string> spellings;
    std::ranges::transform(words.flags, std::back_inserter(spellings), &Given::spelling);
    if (draft.is_joining) {
        HVD_TRY_STATUS(check_joining(draft, spellings));
        HVD_TRY_STATUS(read_start_timeout(draft));
        return Parsed(std::move(draft.join));
    }
    if (!draft.is_doctor && !draft.request.command.empty()) {
        HVD_TRY(auto wrapped, find_wrapped(draft, spellings));
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
