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

std::size_t JobOutput::Console::pending_bytes() const noexcept {
    return writer && !is_abandoned ? writer->pending_bytes() : 0;
}

bool JobOutput::Console::is_idle() const {
    return !writer || is_abandoned || writer->is_idle();
}

JobOutput::JobOutput(const OutputOptions& options, const Events& events)
    : shown_(static_cast<std::size_t>(options.ranks) + 1, !options.show) {
    shown_.back() = true;  // what is of no rank
    for (const int rank : options.show.value_or(std::vector<int>{})) {
        if (rank < options.ranks) {
            shown_[static_cast<std::size_t>(rank)] = true;
        }
    }
    const auto open = [&](Console& console) {
        console.events.on_error = events.on_console_error;
        if (options.console) {
            console.writer = std::make_unique<WriterThread>(options.console(), events.on_progress,
                                                            WriterThread::Mode::in_place);
            return;
        }
        console.writer = std::make_unique<WriterThread>(
            std::make_unique<ConsoleSink>(options.ranks, options.prefix, options.places,
                                          console.events),
            events.on_progress);
    };
    open(out_);
    if (options.console == nullptr && !console_streams_are_one()) {
        open(err_);
    }
}

Result<std::unique_ptr<JobOutput>> JobOutput::create(const OutputOptions& options,
                                                     const Events& events) {
    auto output = std::unique_ptr<JobOutput>(new JobOutput(options, events));
    if (options.folder) {
        HVD_TRY(auto files,
                RankFiles::create(*options.folder, options.ranks, events.files, options.log));
        output->has_log_ = options.log != nullptr;
        output->files_ = std::make_unique<WriterThread>(std::move(files), events.on_progress);
    }
    return output;
}

void JobOutput::submit(Chunk chunk) {
    if (!shown_[static_cast<std::size_t>(chunk.rank)]) {
        if (files_) {
            files_->push(std::move(chunk));
        }
        return;
    }
    if (files_) {
        files_->push(chunk);
    }
    auto& console = console_for(chunk.stream);
    push(console, std::move(chunk));
}

void JobOutput::rank_ended(int rank) {
    if (!shown_[static_cast<std::size_t>(rank)]) {
        return;
    }
    for (const auto stream : {OutputStream::out, OutputStream::err}) {
        auto& console = console_for(stream);
        if (console.writer->has_started()) {
            push(console,
                 {.kind = Chunk::Kind::ended, .stream = stream, .rank = rank, .bytes = {}});
        }
    }
}

void JobOutput::say(std::string_view text) {
    Chunk words{.kind = Chunk::Kind::notice, .stream = OutputStream::err, .bytes = to_bytes(text)};
    if (has_log_) {
        words.time_ns = wall_clock_ns();
        files_->push(words);
    }
    push(console_for(OutputStream::err), std::move(words));
}

std::size_t JobOutput::pending_bytes() const noexcept {
    return std::max(
        {out_.pending_bytes(), err_.pending_bytes(), files_ ? files_->pending_bytes() : 0});
}

bool JobOutput::is_idle() {
    // All are asked, because the answer "no" also asks for a call later.
    const bool out_is_idle = out_.is_idle();
    const bool err_is_idle = err_.is_idle();
    return (!files_ || files_->is_idle()) && out_is_idle && err_is_idle;
}

bool JobOutput::abandon_stuck_consoles() {
    bool is_any_stuck = false;
    for (auto* console : {&out_, &err_}) {
        if (!console->is_idle()) {
            console->is_abandoned = true;
            is_any_stuck = true;
        }
    }
    return is_any_stuck;
}

JobOutput::Console& JobOutput::console_for(OutputStream stream) noexcept {
    return stream == OutputStream::err && err_.writer ? err_ : out_;
}

void JobOutput::push(Console& console, Chunk chunk) {
    if (!console.is_abandoned) {
        console.writer->push(std::move(chunk));
    }
}

}  // namespace hvd::launch
