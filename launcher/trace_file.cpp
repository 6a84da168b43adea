// SPDX-License-Identifier: Apache-2.0
#include "launcher/trace_file.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::launch {

Result<std::unique_ptr<TraceFile>> TraceFile::reserve(const LaunchRequest& request,
                                                      const std::vector<Host>& hosts,
                                                      IoThread& io,
                                                      const Say& say) {
    if (!request.launch_trace) {
        return std::unique_ptr<TraceFile>();
    }
    HVD_TRY(auto file, SummaryFile::reserve(*request.launch_trace, "--launch-trace"));
    auto trace = std::make_unique<TraceFile>(std::move(file), io, say);
    std::vector<std::string> names;
    std::ranges::transform(hosts, std::back_inserter(names), &Host::name);
    trace->trace_.add_hosts(names);
    return trace;
}

TraceFile::TraceFile(SummaryFile file, IoThread& io, Say say)
    : io_(io), say_(std::move(say)), file_(std::move(file)), trace_(io.now()) {}

TraceFile::~TraceFile() {
    trace_.finish(io_.now());
    if (const auto written = write(); !written) {
        say_(written.error().message);
    }
}

void TraceFile::join(StarterContext& context, SuperviseOptions& options) {
    context.on_step = [this](const std::string& host, std::string_view step) {
        trace_.enter(host, std::string(step), io_.now());
    };
    options.trace = &trace_;
    options.on_all_started = [this] { return write(); };
}

Status TraceFile::write() {
    return std::exchange(is_written_, true) ? ok() : file_.write_text(trace_.to_json());
}

}  // namespace hvd::launch
