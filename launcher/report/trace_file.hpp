// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/output/reserved_file.hpp"
#include "launcher/output/say.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/supervise/job_context.hpp"
#include "launcher/supervise/launch_trace.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// The file of --launch-trace and what goes into it. Written once all ranks have started, or by the
/// destructor where that never happens. Thread: io.
class TraceFile final {
public:
    /// Does nothing where no trace is wanted. Errors: as of ReservedFile::reserve.
    /// `say` tells people when the destructor cannot write it.
    [[nodiscard]] static Result<std::unique_ptr<TraceFile>> reserve(
        const LaunchRequest& request,
        const std::vector<PlacedHost>& hosts,
        IoThread& io,
        const Say& say);

    TraceFile(IoThread& io, Say say);
    ~TraceFile();
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;

    /// Has starters and the job tell what happens.
    void join(StarterContext& starters, JobContext& job);

    void enter(std::string step) { trace_.enter(std::move(step), io_.now()); }

private:
    [[nodiscard]] Status write();

    IoThread& io_;
    Say say_;
    std::optional<ReservedFile> file_;  // empty: no trace is wanted
    LaunchTrace trace_;
    bool is_written_ = false;
};

}  // namespace hvd::launch
