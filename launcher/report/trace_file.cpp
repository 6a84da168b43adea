// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/trace_file.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::launch {

Result<std::unique_ptr<TraceFile>> TraceFile::reserve(const LaunchRequest& request,
                                                      const std::vector<PlacedHost>& hosts,
                                                      IoThread& io,
                                                      const Say& say) {
    auto trace = std::make_unique<TraceFile>(io, say);
    if (!request.report.launch_trace) {
        return trace;
    }
    HVD_TRY(auto file, ReservedFile::reserve(*request.report.launch_trace, "--launch-trace"));
    trace->file_.emplace(std::move(file));
    std::vector<std::string> names;
    std::ranges::transform(hosts, std::back_inserter(names),
                           [](const PlacedHost& placed) { return placed.host.name; });
    trace->trace_.add_hosts(names);
    return trace;
}

TraceFile::TraceFile(IoThread& io, Say say) : io_(io), say_(std::move(say)), trace_(io.now()) {}

TraceFile::~TraceFile() {
    trace_.finish(io_.now());
    if (const auto written = write(); !written) {
        say_(written.error().message);
    }
}

void TraceFile::join(StarterContext& starters, JobContext& job) {
    if (!file_) {
        return;
    }
    starters.on_step = [this](const std::string& host, std::string_view step) {
        trace_.enter(host, std::string(step), io_.now());
    };
    job.trace = &trace_;
    job.on_all_started = [this] { return write(); };
}

Status TraceFile::write() {
    return !file_ || std::exchange(is_written_, true) ? ok() : file_->write(trace_.to_json());
}

}  // namespace hvd::launch
