// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi_program.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "launcher/mpi/command_line.hpp"
#include "launcher/mpi/wrap_plan.hpp"
#include "launcher/net/descriptors.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/agent_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 16;

/// Those that MPI understands: names and networks, no patterns.
std::vector<std::string> interfaces_of(const LaunchRequest& request) {
    std::vector<std::string> interfaces;
    const auto list = find(request.tunables, "HOROVOD_NETWORK_INTERFACES").value_or("");
    for (const auto part : split(list, ',')) {
        if (!part.empty() && part.find_first_of("*?[") == std::string_view::npos) {
            interfaces.emplace_back(part);
        }
    }
    return interfaces;
}

/// Of each host, when ranks choose among them themselves: jsrun gives no GPU that is not asked for.
std::vector<std::vector<int>> gpus_to_choose(const LaunchRequest& request,
                                             std::span<const HostFacts> facts) {
    std::vector<std::vector<int>> gpus;
    if (request.gpu_bind == GpuBind::none) {
        for (const auto& host : facts) {
            std::ranges::transform(host.gpus, std::back_inserter(gpus.emplace_back()), &Gpu::index);
        }
    }
    return gpus;
}

std::string temporary_folder() {
    const auto folder = read_env("TMPDIR").value_or("");
    return folder.starts_with('/') ? folder : "/tmp";
}

}  // namespace

MpiProgram::MpiProgram(const LaunchRequest& request, StarterContext context)
    : request_(request), context_(std::move(context)) {
    if (!request.mpi.is_wanted) {
        return;
    }
    if (request.mpi.is_jsrun) {
        known_ = mpi::Kind::jsrun;
        return;
    }
    memory_.emplace(request.mpi.program, current_environment());
    if (const auto said = memory_->recall()) {
        if (const auto kind = mpi::detect_kind(*said, request.mpi.program)) {
            known_ = *kind;
            return;
        }
    }
    auto child = spawn_child({request.mpi.program, "--version"}, context_.signal_mask);
    if (!child) {
        error_ = {Errc::unavailable,
                  "--mpi: " + child.error().message +
                      "; install Open MPI or MPICH, name its mpirun in HOROVOD_MPIRUN, or leave "
                      "--mpi out: horovodrun needs no MPI"};
        return;
    }
    child_ = std::move(*child);
    child_.input.reset();
}

MpiProgram::~MpiProgram() {
    if (child_.pidfd) {
        (void)::kill(child_.pid, SIGKILL);  // it has nothing more to say; not reaped yet
        while (::waitpid(child_.pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

Status MpiProgram::learn(IoThread& io, Supervisor& supervisor) {
    if (!child_.output) {
        return ok();
    }
    bool is_over = false;
    const auto take = [&](std::span<const std::byte> bytes) {
        version_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (version_.size() >= kMaxText) {
            is_over = true;
            io.stop();
        }
    };
    const auto end = [&](const std::optional<Error>& /*error*/) {
        is_over = true;
        io.stop();
    };
    PipeReader output(io, std::move(child_.output));
    PipeReader errors(io, std::move(child_.errors));
    output.start({.on_bytes = take, .on_end = end});
    errors.start({.on_bytes = take, .on_end = [](const std::optional<Error>& /*error*/) {}});
    return supervisor.wait_until([&] { return is_over; },
                                 request_.mpi.program +
                                     " --version does not answer within --start-timeout; name "
                                     "another program in HOROVOD_MPIRUN");
}

Result<mpi::Kind> MpiProgram::find_kind() {
    if (known_) {
        return *known_;
    }
    auto kind = mpi::detect_kind(version_, request_.mpi.program);
    if (kind) {
        memory_->keep(version_);
    }
    return kind;
}

Result<LaunchPlan> MpiProgram::wrap(LaunchPlan plan, std::span<const HostFacts> facts) {
    if (!request_.mpi.is_wanted) {
        return plan;
    }
    if (error_) {
        return *error_;
    }
    HVD_TRY(const auto kind, find_kind());
    HVD_TRY(auto shim, find_agent_file(context_));
    auto args = split_shell_words(request_.mpi.args);
    if (!args) {
        return std::move(args).error().context("--mpi-args");
    }
    auto binding = split_shell_words(request_.mpi.binding_args);
    if (!binding) {
        return std::move(binding).error().context("--binding-args");
    }
    std::vector<std::vector<int>> host_cpus;
    std::ranges::transform(facts, std::back_inserter(host_cpus), &HostFacts::cpus);
    const auto& remote = request_.remote;
    auto wrapped = mpi::wrap_plan(std::move(plan),
                                  {.kind = kind,
                                   .program = request_.mpi.program,
                                   .shim = std::move(shim),
                                   .ssh_port = request_.mpi.ssh_port,
                                   .ssh_identity = remote.identity ? remote.identity->string() : "",
                                   .interfaces = interfaces_of(request_),
                                   .binding_args = std::move(*binding),
                                   .mpi_args = std::move(*args),
                                   .is_tcp = request_.mpi.is_tcp,
                                   .allocation = request_.mpi.allocation,
                                   .host_cpus = std::move(host_cpus),
                                   .host_gpus = gpus_to_choose(request_, facts),
                                   .resource_folder = temporary_folder()});
    return wrapped
               ? std::move(wrapped)
               : std::move(wrapped).error().context(request_.mpi.is_jsrun ? "--jsrun" : "--mpi");
}

}  // namespace hvd::launch
