// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/job_output.hpp"

#include "collectives/base/wall_clock.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

std::vector<std::byte> to_bytes(std::string_view text) {
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    return {raw, raw + text.size()};
}

}  // namespace

void JobOutput::Place::push(Chunk chunk) const {
    if (writer && !is_abandoned) {
        writer->push(std::move(chunk));
    }
}

std::size_t JobOutput::Place::pending_bytes() const noexcept {
    return writer && !is_abandoned ? writer->pending_bytes() : 0;
}

bool JobOutput::Place::is_idle() const {
    return !writer || is_abandoned || writer->is_idle();
}

bool JobOutput::Place::abandon_if_stuck() {
    if (is_idle()) {
        return false;
    }
    is_abandoned = true;
    return true;
}

JobOutput::JobOutput(const OutputOptions& options, const OutputPlaces& places, const Events& events)
    : shown_(static_cast<std::size_t>(places.ranks) + 1, !options.show) {
    shown_.back() = true;  // what is of no rank
    for (const int rank : options.show.value_or(std::vector<int>{})) {
        if (rank < places.ranks) {
            shown_[static_cast<std::size_t>(rank)] = true;
        }
    }
    const auto open = [&](Place& console, ConsoleEvents& console_events) {
        console_events.on_error = events.on_console_error;
        if (places.console) {
            console.writer = std::make_unique<WriterThread>(places.console(), events.on_progress,
                                                            WriterThread::Mode::in_place);
            return;
        }
        console.writer = std::make_unique<WriterThread>(
            std::make_unique<ConsoleSink>(
                RankPrinter(places.ranks, options.prefix, places.places, places.input_rank,
                            options.bars, places.terminal_rank),
                console_events, places.terminal_rank),
            events.on_progress);
    };
    open(out_, out_events_);
    if (places.console == nullptr && !console_streams_are_one()) {
        open(err_, err_events_);
    }
}

Result<std::unique_ptr<JobOutput>> JobOutput::create(const OutputOptions& options,
                                                     const OutputPlaces& places,
                                                     const Events& events) {
    auto output = std::unique_ptr<JobOutput>(new JobOutput(options, places, events));
    if (options.folder) {
        HVD_TRY(auto files,
                RankFiles::create(*options.folder, places.ranks, events.files, places.log));
        output->has_log_ = places.log != nullptr;
        output->files_.writer =
            std::make_unique<WriterThread>(std::move(files), events.on_progress);
    }
    return output;
}

void JobOutput::submit(Chunk chunk) {
    if (!shown_[static_cast<std::size_t>(chunk.rank)]) {
        files_.push(std::move(chunk));
        return;
    }
    if (files_.writer) {
        files_.push(chunk);
    }
    auto& console = console_for(chunk.stream);
    console.push(std::move(chunk));
}

void JobOutput::rank_ended(int rank) {
    if (!shown_[static_cast<std::size_t>(rank)]) {
        return;
    }
    for (const auto stream : {OutputStream::out, OutputStream::err}) {
        auto& console = console_for(stream);
        if (console.writer->has_started()) {
            console.push({.kind = Chunk::Kind::ended, .stream = stream, .rank = rank, .bytes = {}});
        }
    }
}

void JobOutput::say(std::string_view text, std::string_view logged) {
    const auto notice = [](std::string_view words) {
        return Chunk{.kind = Chunk::Kind::notice,
                     .stream = OutputStream::err,
                     .time_ns = wall_clock_ns(),
                     .bytes = to_bytes(words)};
    };
    if (has_log_) {
        files_.push(notice(logged));
    }
    console_for(OutputStream::err).push(notice(text));
}

std::size_t JobOutput::pending_bytes() const noexcept {
    return std::max({out_.pending_bytes(), err_.pending_bytes(), files_.pending_bytes()});
}

bool JobOutput::is_idle() {
    // All are asked, because the answer "no" also asks for a call later.
    const bool out_is_idle = out_.is_idle();
    const bool err_is_idle = err_.is_idle();
    return files_.is_idle() && out_is_idle && err_is_idle;
}

JobOutput::Stuck JobOutput::abandon_stuck() {
    const bool is_out_stuck = out_.abandon_if_stuck();
    const bool is_err_stuck = err_.abandon_if_stuck();
    return {.console = is_out_stuck || is_err_stuck, .files = files_.abandon_if_stuck()};
}

JobOutput::Place& JobOutput::console_for(OutputStream stream) noexcept {
    return stream == OutputStream::err && err_.writer ? err_ : out_;
}

}  // namespace hvd::launch
