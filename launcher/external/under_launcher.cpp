// SPDX-License-Identifier: Apache-2.0
#include "launcher/external/under_launcher.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/error.hpp"
#include "collectives/launch_contract/launcher_record.hpp"
#include "launcher/agent/external/shim.hpp"
#include "launcher/external/task_environment.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/mpi/external_line.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace hvd::launch {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (auto& word : words) {
        pointers.push_back(word.data());
    }
    return pointers;
}

}  // namespace

int run_task(const RunTask& request) {
    if (request.task.rank == 0) {  // the others have the same
        for (const auto& note : request.job.report.notes) {
            (void)std::fprintf(stderr, "horovodrun: %s\n", note.c_str());
        }
    }
    auto environment = coll::current_innermost_environment();
    const bool is_ours = request.task.launcher == kHorovodrun;
    if (!is_ours) {  // a rank of horovodrun has its contract, CPUs and GPUs
        std::array<char, 256> host{};
        (void)::gethostname(host.data(), host.size() - 1);
        set_contract(environment, request.task, host.data());
    }
    for (const auto* layer : {&request.job.environment.tunables, &request.job.environment.set}) {
        for (const auto& [name, value] : *layer) {
            environment.insert_or_assign(name, value);
        }
    }
    auto gpus = is_ours ? Environment() : own_gpus(request.job.binding, request.task, environment);
    for (auto& [name, value] : gpus) {
        environment.insert_or_assign(name, std::move(value));
    }
    auto command = request.job.command;
    const bool pins = !is_ours && request.job.binding.cpus == BindTo::share;
    return agent::run_task(request.task, std::move(environment), pins, pointers_to(command));
}

int run_line(const RunLine& request) {
    std::error_code unknown;  // leaves the path empty, which mpirun then says
    const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
    auto line = mpi::insert_shim(request.line, self.string());
    if (!line) {
        (void)std::fprintf(stderr, "horovodrun: %s\n", line.error().message.c_str());
        return kExitUsage;
    }
    auto argv = pointers_to(*line);
    argv.push_back(nullptr);
    ::execvp(argv.front(), argv.data());
    const int error = errno;
    (void)std::fprintf(stderr, "horovodrun: %s\n",
                       system_error(line->front(), error).message.c_str());
    return error == ENOENT ? kExitNotFound : kExitCannotExecute;
}

}  // namespace hvd::launch
