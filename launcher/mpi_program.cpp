// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi_program.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "launcher/mpi/command_line.hpp"
#include "launcher/mpi/wrap_plan.hpp"
#include "launcher/remote/agent_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>
#include <vector>

#include <poll.h>
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

Result<std::string> MpiProgram::read_version() {
    const auto deadline = Deadline::in(request_.start_timeout);
    std::string text;
    while (child_.output && text.size() < kMaxText) {
        std::array<pollfd, 2> ready{{{.fd = child_.output.get(), .events = POLLIN, .revents = 0},
                                     {.fd = child_.errors.get(), .events = POLLIN, .revents = 0}}};
        const int count = ::poll(ready.data(), ready.size(), deadline.poll_timeout_ms());
        if (count == 0) {
            return Error{Errc::timed_out, request_.mpi.program +
                                              " --version does not answer; name another program "
                                              "in HOROVOD_MPIRUN"};
        }
        for (auto* stream : {&child_.output, &child_.errors}) {
            const auto& is_ready = ready.at(stream == &child_.output ? 0 : 1);
            if (count < 0 || is_ready.revents == 0) {
                continue;
            }
            std::array<char, 4096> bytes{};
            const auto size = ::read(stream->get(), bytes.data(), bytes.size());
            if (size > 0) {
                text.append(bytes.data(), static_cast<std::size_t>(size));
            } else if (size == 0) {
                stream->reset();
            }
        }
    }
    return text;
}

Result<mpi::Kind> MpiProgram::find_kind() {
    if (known_) {
        return *known_;
    }
    HVD_TRY(const auto version, read_version());
    auto kind = mpi::detect_kind(version, request_.mpi.program);
    if (kind) {
        memory_->keep(version);
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
                                   .ssh_port = remote.port,
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
