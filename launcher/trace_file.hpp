// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/options.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/say.hpp"
#include "launcher/supervise/launch_trace.hpp"
#include "launcher/supervise/summary.hpp"
#include "launcher/supervise/supervisor.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// The file of --launch-trace and what goes into it. Written once all ranks have started, or by the
/// destructor where that never happens. Thread: io.
class TraceFile final {
public:
    /// Null where no trace is wanted. Errors: as of SummaryFile::reserve.
    /// `say` tells people when the destructor cannot write it.
    [[nodiscard]] static Result<std::unique_ptr<TraceFile>> reserve(const LaunchRequest& request,
                                                                    const std::vector<Host>& hosts,
                                                                    IoThread& io,
                                                                    const Say& say);

    TraceFile(SummaryFile file, IoThread& io, Say say);
    ~TraceFile();
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;

    /// Has starters and supervisor tell what happens.
    void join(StarterContext& context, SuperviseOptions& options);

    void enter(std::string step) { trace_.enter(std::move(step), io_.now()); }

private:
    [[nodiscard]] Status write();

    IoThread& io_;
    Say say_;
    SummaryFile file_;
    LaunchTrace trace_;
    bool is_written_ = false;
};

}  // namespace hvd::launch
