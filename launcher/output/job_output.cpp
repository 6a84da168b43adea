// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/job_output.hpp"

#include "launcher/output/rank_files.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

std::vector<std::byte> to_bytes(std::string_view text) {
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    return {raw, raw + text.size()};
}

}  // namespace

JobOutput::JobOutput(const OutputOptions& options, const Events& events)
    : shown_(static_cast<std::size_t>(options.ranks), !options.show) {
    for (const int rank : options.show.value_or(std::vector<int>{})) {
        if (rank < options.ranks) {
            shown_[static_cast<std::size_t>(rank)] = true;
        }
    }
    console_.on_error = events.on_console_error;
    const auto make = [&] {
        return std::make_unique<WriterThread>(
            std::make_unique<ConsoleSink>(options.ranks, options.timestamps, console_),
            events.on_progress);
    };
    out_ = make();
    if (!console_streams_are_one()) {
        err_ = make();
    }
}

Result<std::unique_ptr<JobOutput>> JobOutput::create(const OutputOptions& options,
                                                     const Events& events) {
    auto output = std::unique_ptr<JobOutput>(new JobOutput(options, events));
    if (options.folder) {
        HVD_TRY(auto files,
                RankFiles::create(*options.folder, options.ranks, events.on_file_error));
        output->files_ = std::make_unique<WriterThread>(std::move(files), events.on_progress);
    }
    return output;
}

void JobOutput::submit(Chunk chunk) {
    const bool is_for_console = is_shown(chunk.rank);
    if (files_) {
        files_->push(is_for_console ? chunk : std::move(chunk));
    }
    if (is_for_console) {
        auto& console = console_for(chunk.stream);
        console.push(std::move(chunk));
    }
}

void JobOutput::rank_ended(int rank) {
    if (!is_shown(rank)) {
        return;
    }
    for (const auto stream : {OutputStream::out, OutputStream::err}) {
        auto& console = console_for(stream);
        if (console.has_started()) {
            console.push({.kind = Chunk::Kind::ended, .stream = stream, .rank = rank, .bytes = {}});
        }
    }
}

void JobOutput::say(std::string_view text) {
    console_for(OutputStream::err)
        .push({.kind = Chunk::Kind::notice, .stream = OutputStream::err, .bytes = to_bytes(text)});
}

std::size_t JobOutput::pending_bytes() const noexcept {
    std::size_t slowest = out_->pending_bytes();
    for (const auto* writer : {err_.get(), files_.get()}) {
        slowest = std::max(slowest, writer == nullptr ? 0 : writer->pending_bytes());
    }
    return slowest;
}

bool JobOutput::is_idle() {
    // Every one is asked, because the answer "no" also asks for a call later.
    bool idle = out_->is_idle();
    for (auto* writer : {err_.get(), files_.get()}) {
        idle = (writer == nullptr || writer->is_idle()) && idle;
    }
    return idle;
}

bool JobOutput::console_is_idle() const noexcept {
    return out_->pending_bytes() == 0 && (err_ == nullptr || err_->pending_bytes() == 0);
}

WriterThread& JobOutput::console_for(OutputStream stream) noexcept {
    return stream == OutputStream::err && err_ ? *err_ : *out_;
}

bool JobOutput::is_shown(int rank) const noexcept {
    return shown_[static_cast<std::size_t>(rank)];
}

}  // namespace hvd::launch
