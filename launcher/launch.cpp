// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch.hpp"

#include "collectives/base/env.hpp"
#include "launcher/clock_recorder.hpp"
#include "launcher/doctor/check_build.hpp"
#include "launcher/host_starters.hpp"
#include "launcher/hosts/allocation.hpp"
#include "launcher/job_report.hpp"
#include "launcher/join_hosts.hpp"
#include "launcher/launcher_file.hpp"
#include "launcher/mpi_program.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/output/write_all.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/plan_request.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/say.hpp"
#include "launcher/supervise/supervisor.hpp"
#include "launcher/time_limit.hpp"
#include "launcher/trace_file.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// A descriptor that our parent closed would be given to the first file we open, and be written to
/// as if it were the console.
void open_missing_descriptors() {
    for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(wanted, F_GETFD) < 0 && errno == EBADF) {
            (void)::open("/dev/null", O_RDWR);  // takes the lowest free number: this one
        }
    }
}

SuperviseOptions supervise_options(const LaunchRequest& request) {
    const auto limit =
        time_limit(request.timeout, request.end_time, std::chrono::system_clock::now());
    return {
        .build_id = std::string(wire::build_id()),
        .start_timeout = request.start_timeout,
        .timeout = limit ? std::optional(limit->left) : std::nullopt,
        .timeout_words = limit ? limit->words : "",
        .grace = request.grace,
        .lease = request.lease,
        .on_failure = request.on_failure == FailureRule::wait ? OnFailure::wait : OnFailure::stop,
        .exit_timeout = request.exit_timeout,
        .error_lines = static_cast<std::size_t>(request.error_lines),
        .verbose = request.verbose,
        .output = {.prefix = request.prefix.value_or(
                       request.prefix_timestamp ? LinePrefix::stamped() : LinePrefix()),
                   .show = request.show,
                   .folder = request.output_filename}};
}

int print_plan(const LaunchRequest& request,
               const LaunchPlan& plan,
               std::span<const AgentWay> agents = {}) {
    return print_page(request.output_format == OutputFormat::json ? print_json(plan, agents)
                                                                  : print_text(plan, agents));
}

/// A job that never had a rank.
int fail(JobReport& report, int exit_code, const Error& error, std::vector<HostResult> hosts = {}) {
    report.say(error.message);
    JobResult result;
    result.exit_code = exit_code;
    result.reason = Reason::start;
    result.sentence = error.message;
    result.hosts = std::move(hosts);
    return report.write(std::move(result));
}

int link_exit_code(const Error& error, int stop_signal) {
    constexpr int kSignalBase = 128;
    switch (error.code) {
        case Errc::timed_out: return kExitTimeLimit;
        case Errc::aborted: return kSignalBase + stop_signal;
        case Errc::invalid_argument:
        case Errc::unavailable:
        case Errc::mismatch:
        case Errc::unsupported:
        case Errc::internal: break;
    }
    return kExitLauncherFailure;
}

int join_exit_code(const Error& error, int stop_signal) {
    return error.code == Errc::invalid_argument ? kExitUsage : link_exit_code(error, stop_signal);
}

/// The agents did not come up, or did not answer.
int fail_link(JobReport& report, const Supervisor& supervisor, const Error& error) {
    for (const auto& words : supervisor.link_words()) {
        report.say(words);
    }
    return fail(report, join_exit_code(error, supervisor.stop_signal()), error,
                supervisor.link_failures());
}

/// Makes one host of the names that are one machine. Returns 0 or the exit code.
int join_names(Supervisor& supervisor, std::vector<Host>& hosts, JobReport& report) {
    const auto machines = supervisor.find_machines();
    if (!machines) {
        return fail_link(report, supervisor, machines.error());
    }
    const auto merged = merge_machines(hosts, *machines);
    return merged ? 0 : fail(report, kExitUsage, merged.error());
}

/// MASTER_PORT is to be one of the allowed ports. Returns 0 or the exit code.
int choose_master_port(Supervisor& supervisor,
                       const std::optional<PortSpan>& ports,
                       HostFacts& facts,
                       JobReport& report) {
    if (!ports) {
        return 0;
    }
    const auto port = supervisor.pick_port(*ports);
    if (!port) {
        return fail_link(report, supervisor, port.error());
    }
    facts.free_port = *port;
    return 0;
}

/// --mpi: which one that is. Returns 0 or the exit code.
int learn_mpirun(Supervisor& supervisor, IoThread& io, MpiProgram& mpirun, JobReport& report) {
    const auto learned = mpirun.learn(io, supervisor);
    return learned ? 0 : fail_link(report, supervisor, learned.error());
}

/// Asks every host whether its ranks could run, so that none starts where others cannot. Returns 0
/// or the exit code.
int check_hosts(Supervisor& supervisor, const LaunchPlan& plan, JobReport& report) {
    const auto problems = supervisor.check(plan);
    if (!problems) {
        return fail_link(report, supervisor, problems.error());
    }
    if (problems->empty()) {
        return 0;
    }
    const auto line = [](const HostProblem& found) {
        return found.host + ": " + found.problem.text;
    };
    for (const auto& found : std::span(*problems).first(problems->size() - 1)) {
        report.say(line(found));
    }
    return fail(report, problems->front().problem.exit_code,
                {Errc::invalid_argument, line(problems->back())});
}

/// Where a start has come to once all agents are linked.
struct Linked {
    std::vector<Host> hosts;
    bool is_here;      // all of them are this machine
    bool needs_check;  // else the first rank that cannot run says why
    std::vector<HostFacts> facts;
    PlanRequest wishes;
    IoThread& io;
    MpiProgram& mpirun;
    JobReport& report;
};

Result<LaunchPlan> plan_wrapped(const Linked& linked) {
    HVD_TRY(auto planned, make_plan(linked.wishes, linked.facts));
    for (const auto& warning : planned.warnings) {
        linked.report.say(warning);
    }
    return linked.mpirun.wrap(std::move(planned.plan), linked.facts);
}

/// What the agents are to run, known to be possible; or, with the agents dismissed, the exit code.
std::variant<LaunchPlan, int> prepare(Supervisor& supervisor,
                                      const std::optional<PortSpan>& ports,
                                      TraceFile* trace,
                                      Linked linked) {
    if (!linked.is_here) {
        if (const int exit_code = join_names(supervisor, linked.hosts, linked.report);
            exit_code != 0) {
            supervisor.dismiss(exit_code);
            return exit_code;
        }
    }
    if (const int exit_code =
            choose_master_port(supervisor, ports, linked.facts.front(), linked.report);
        exit_code != 0) {
        supervisor.dismiss(exit_code);
        return exit_code;
    }
    if (const int exit_code = learn_mpirun(supervisor, linked.io, linked.mpirun, linked.report);
        exit_code != 0) {
        supervisor.dismiss(exit_code);
        return exit_code;
    }
    if (trace != nullptr) {
        trace->enter("plan");
    }
    linked.wishes.hosts = std::move(linked.hosts);
    auto plan = plan_wrapped(linked);
    if (!plan) {
        supervisor.dismiss(kExitUsage);  // what agents still have to say comes first
        return fail(linked.report, kExitUsage, plan.error());
    }
    if (linked.needs_check) {
        if (const int exit_code = check_hosts(supervisor, *plan, linked.report); exit_code != 0) {
            supervisor.dismiss(exit_code);
            return exit_code;
        }
    }
    return std::move(*plan);
}

/// Runs a plan and tells everybody how it ended.
int run_plan(Supervisor& supervisor, const LaunchPlan& plan, JobReport& report) {
    auto file = LauncherFile::write(plan);
    if (!file) {
        supervisor.dismiss(kExitLauncherFailure);
        return fail(report, kExitLauncherFailure, file.error());
    }
    report.write_environments(plan);
    const auto clocks = ClockRecorder::watch(supervisor, plan);
    auto supervised = supervisor.run(plan);
    file->reset();
    if (clocks) {
        clocks->finish([&](const std::string& sentence) { report.say(sentence); });
    }
    if (!supervised) {
        supervisor.dismiss(kExitUsage);
        return fail(report, kExitUsage, supervised.error());
    }
    if (supervised->is_folder_abandoned) {
        report.leave_folder();
    }
    const int exit_code = report.write(std::move(supervised->result));
    if (supervised->is_console_abandoned || supervised->is_folder_abandoned) {
        ::_exit(exit_code);  // a thread is blocked in a write that may never end
    }
    return exit_code;
}

/// Prints the plan or runs it.
int use_plan(Supervisor& supervisor,
             const LaunchPlan& plan,
             const HostStarters& starters,
             const LaunchRequest& request,
             JobReport& report) {
    if (request.dry_run) {
        supervisor.dismiss(0);
        return print_plan(request, plan, starters.ways());
    }
    if (request.verbose) {
        report.say_plan(plan);
        if (!report.folder().empty()) {
            report.say("what the ranks print, launcher.log, env.json and summary.json are in " +
                       report.folder().string());
        }
    }
    return run_plan(supervisor, plan, report);
}

int run_on(const std::vector<PlacedHost>& placed,
           const LaunchRequest& request,
           EarlyAgentPtr early_agent,
           JobReport& report) {
    const BlockedSignals blocked;
    IoThread io;
    int stop_signal = 0;
    const Say say = [&report](const std::string& sentence) { report.say(sentence); };
    auto gathered = gather_hosts(io, blocked, request, placed, stop_signal, say);
    if (!gathered) {
        return fail(report, join_exit_code(gathered.error(), stop_signal), gathered.error());
    }
    auto hosts = hosts_of(gathered->placed);
    auto trace = TraceFile::reserve(request, hosts, io, say);
    if (!trace) {
        return fail(report, kExitUsage, trace.error());
    }
    auto context = starter_context(blocked.original_mask(), request.start_timeout);
    context.say = say;
    auto options = supervise_options(request);
    options.output.log = report.log();
    if (*trace) {
        (*trace)->join(context, options);
    }
    auto starters = make_host_starters(io, request.remote, gathered->placed, context,
                                       std::move(early_agent), std::move(gathered->starter));
    if (!starters) {
        return fail(report, kExitLauncherFailure, starters.error());
    }
    // What needs no facts is done while agents start.
    auto wishes = make_plan_request(request);
    if (!wishes) {
        return fail(report, kExitUsage, wishes.error());
    }
    MpiProgram mpirun(request, context);
    Supervisor supervisor(io, blocked, std::move(options));
    auto facts = supervisor.link(**starters, hosts);
    if (!facts) {
        supervisor.dismiss(join_exit_code(facts.error(), supervisor.stop_signal()));
        return fail_link(report, supervisor, facts.error());
    }
    wishes->starters = (*starters)->names();
    const bool is_here = std::ranges::all_of(gathered->placed, &PlacedHost::is_here);
    const auto prepared = prepare(supervisor, request.ports, trace->get(),
                                  {.hosts = std::move(hosts),
                                   .is_here = is_here,
                                   .needs_check = !is_here || request.dry_run,
                                   .facts = std::move(*facts),
                                   .wishes = std::move(*wishes),
                                   .io = io,
                                   .mpirun = mpirun,
                                   .report = report});
    if (const auto* exit_code = std::get_if<int>(&prepared)) {
        return *exit_code;
    }
    return use_plan(supervisor, std::get<LaunchPlan>(prepared), **starters, request, report);
}

}  // namespace

EarlyAgentPtr make_head_start(std::span<char*> argv) {
    open_missing_descriptors();
    static constexpr auto kNoAgentHere = std::to_array<std::string_view>(
        {"-h", "--help", "-v", "--version", "-cb", "--check-build", "-H", "--hosts", "-hostfile",
         "--hostfile", "--facts", "--listen", "--join", kTimeline});
    const bool is_wanted = std::ranges::none_of(argv, [](std::string_view argument) {
        return std::ranges::find(kNoAgentHere, argument.substr(0, argument.find('='))) !=
               kNoAgentHere.end();
    });
    if (argv.empty() || !is_wanted || read_env("HOROVOD_AGENT") || is_in_allocation()) {
        return nullptr;
    }
    // The kernel puts the arguments one behind the other.
    return start_early_agent({argv.front(), argv.back() + std::string_view(argv.back()).size()});
}

int run(const LaunchRequest& request, EarlyAgentPtr early_agent) {
    if (request.facts_file) {
        const auto planned = plan_offline(request);
        if (!planned) {
            say_on_stderr(planned.error().message);
            return kExitUsage;
        }
        std::ranges::for_each(planned->warnings, say_on_stderr);
        return print_plan(request, planned->plan);
    }

    JobReport report(request);
    if (const auto reserved = report.reserve_summary(request); !reserved) {
        return fail(report, kExitUsage, reserved.error());
    }
    for (const auto& note : request.notes) {
        report.say(note);
    }
    const auto placed = choose_hosts(request);
    if (!placed) {
        return fail(report, kExitUsage, placed.error());
    }
    return run_on(*placed, request, std::move(early_agent), report);
}

int check_build(const CheckBuild& request) {
    std::error_code unknown;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
    return print_page(print_build(find_build(current_environment(), program), request.verbose));
}

int print_page(const std::string& text) {
    const int error = write_all(STDOUT_FILENO, text);
    if (error == 0) {
        return 0;
    }
    if (error == EPIPE) {
        return kExitConsoleClosed;
    }
    say_on_stderr(system_error("standard output", error).message);
    return kExitLauncherFailure;
}

}  // namespace hvd::launch
