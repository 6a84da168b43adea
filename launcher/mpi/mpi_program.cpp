// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/mpi_program.hpp"

#include "collectives/base/env.hpp"
#include "launcher/mpi/wrap_plan.hpp"
#include "launcher/net/descriptors.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/agent_file.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 16;

std::string temporary_folder() {
    const auto folder = read_env("TMPDIR").value_or("");
    return folder.starts_with('/') ? folder : "/tmp";
}

}  // namespace

MpiProgram::MpiProgram(const LaunchRequest& request, StarterContext context)
    : request_(request), context_(std::move(context)) {
    if (!request.mpi.is_wanted || request.mpi.is_jsrun) {
        return;
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

Status MpiProgram::learn(IoThread& io, JobStart& start) {
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
    return start.wait_until([&] { return is_over; },
                            request_.mpi.program +
                                " --version does not answer within --start-timeout; name "
                                "another program in HOROVOD_MPIRUN");
}

Result<LaunchPlan> MpiProgram::wrap(LaunchPlan plan, std::span<const PlanHost> hosts) {
    if (!request_.mpi.is_wanted) {
        return plan;
    }
    auto wrapped = try_wrap(std::move(plan), hosts);
    if (!wrapped) {  // the command line asks for something that this MPI cannot do
        return Error{Errc::invalid_argument, wrapped.error().message};
    }
    return wrapped;
}

Result<LaunchPlan> MpiProgram::try_wrap(LaunchPlan plan, std::span<const PlanHost> hosts) {
    if (error_) {
        return *error_;
    }
    const auto& options = request_.mpi;
    HVD_TRY(const auto kind, options.is_jsrun ? Result<mpi::Kind>(mpi::Kind::jsrun)
                                              : mpi::detect_kind(version_, options.program));
    HVD_TRY(auto shim, find_agent_file(context_));
    auto wrapped = mpi::wrap_plan(
        std::move(plan), request_, hosts,
        {.kind = kind, .shim = std::move(shim), .resource_folder = temporary_folder()});
    return wrapped ? std::move(wrapped)
                   : std::move(wrapped).error().context(options.is_jsrun ? "--jsrun" : "--mpi");
}

}  // namespace hvd::launch
