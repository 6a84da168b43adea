// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/start_failure.hpp"

#include "launcher/model/exit_code.hpp"

#include <utility>

namespace hvd::launch {
namespace {

JobResult unstarted(int exit_code, std::string sentence, std::vector<HostResult> hosts = {}) {
    JobResult result;
    result.exit_code = exit_code;
    result.reason = Reason::start;
    result.sentence = std::move(sentence);
    result.hosts = std::move(hosts);
    return result;
}

}  // namespace

int exit_code_of(const Error& error, int stop_signal) {
    switch (error.code) {
        case Errc::invalid_argument: return kExitUsage;
        case Errc::timed_out: return kExitTimeLimit;
        case Errc::aborted: return exit_code_of_signal(stop_signal);
        case Errc::unavailable:
        case Errc::mismatch:
        case Errc::unsupported:
        case Errc::internal: break;
    }
    return kExitLauncherFailure;
}

StartFailure failed_start(const Error& error, int stop_signal, std::vector<HostResult> failures) {
    return {
        .words = {error.message},
        .result = unstarted(exit_code_of(error, stop_signal), error.message, std::move(failures))};
}

StartFailure failed_preflight(std::span<const HostProblem> problems) {
    const auto line = [](const HostProblem& found) {
        return found.host + ": " + found.problem.text;
    };
    const auto& reason = problems.front();
    StartFailure failure{.words = {}, .result = unstarted(reason.problem.exit_code, line(reason))};
    for (const auto& problem : problems.subspan(1)) {
        failure.words.push_back(line(problem));
    }
    failure.words.push_back(line(reason));
    return failure;
}

}  // namespace hvd::launch
