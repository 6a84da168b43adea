// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/output_flow.hpp"

#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace hvd::launch {
namespace {

/// A console that takes nothing for this long is reported as stuck.
constexpr auto kConsoleTimeout = std::chrono::seconds(10);
constexpr auto kConsoleLook = std::chrono::seconds(1);

/// When all that came was written, an agent has credit: what a rank wrote before its end is here
/// after this time.
constexpr auto kLastOutput = std::chrono::milliseconds(200);

/// Small enough that an agent never has to wait for credit while the console keeps up.
constexpr std::uint64_t kStepsPerWindow = 4;

}  // namespace

OutputFlow::OutputFlow(IoThread& io,
                       AgentFleet& fleet,
                       int ranks,
                       std::string folder,
                       Events events)
    : io_(io),
      fleet_(fleet),
      ranks_(ranks),
      folder_(std::move(folder)),
      events_(std::move(events)),
      window_(wire::output_window(fleet.size())),
      received_bytes_(fleet.size()),
      credited_bytes_(fleet.size()),
      console_timer_(io),
      ended_timer_(io),
      limit_timer_(io) {}

Result<std::unique_ptr<OutputFlow>> OutputFlow::create(IoThread& io,
                                                       AgentFleet& fleet,
                                                       const OutputOptions& options,
                                                       const OutputPlaces& places,
                                                       Events events) {
    auto flow = std::unique_ptr<OutputFlow>(new OutputFlow(
        io, fleet, places.ranks, options.folder.value_or("").string(), std::move(events)));
    auto* self = flow.get();
    HVD_TRY(self->output_,
            JobOutput::create(
                options, places,
                {.on_progress = [self] { self->io_.post([self] { self->progress(); }); },
                 .on_console_error =
                     [self](OutputStream stream, int error_number) {
                         self->hear([self, stream, error_number] {
                             self->console_failed(stream, error_number);
                         });
                     },
                 .files = {.on_error =
                               [self](std::string text) {
                                   self->hear(
                                       [self, text = std::move(text)] { self->file_failed(text); });
                               },
                           .on_log_error =
                               [self](std::string text) {
                                   self->hear([self, text = std::move(text)] { self->say(text); });
                               }}}));
    return flow;
}

void OutputFlow::submit(std::size_t host, Chunk chunk) {
    received_bytes_[host] += chunk.bytes.size();
    output_->submit(std::move(chunk));
    give_credit();
    watch_console();
}

void OutputFlow::rank_ended(int rank) {
    if (!has_begun()) {
        return;
    }
    if (ended_ranks_.empty()) {
        ended_timer_.set(io_.in(kLastOutput), [this] { end_lines(); });
    }
    ended_ranks_.push_back(rank);
}

void OutputFlow::end_lines() {
    if (output_->pending_bytes() != 0) {
        // Its agent may be without credit.
        ended_timer_.set(io_.in(kLastOutput), [this] { end_lines(); });
        return;
    }
    for (const int rank : std::exchange(ended_ranks_, {})) {
        output_->rank_ended(rank);
    }
}

void OutputFlow::all_ended() {
    ended_timer_.cancel();
    for (int rank = 0; rank < ranks_ && has_begun(); ++rank) {
        output_->rank_ended(rank);  // also those whose agent was lost
    }
}

bool OutputFlow::has_begun() const noexcept {
    return std::ranges::any_of(received_bytes_, [](auto bytes) { return bytes != 0; });
}

void OutputFlow::say(std::string_view sentence) {
    say_as_is("horovodrun: " + std::string(sentence) + "\n");
}

void OutputFlow::say_as_is(std::string_view text, std::string_view logged) {
    output_->say(text, logged);
}

bool OutputFlow::is_idle() {
    return output_->is_idle() && unheard_ == 0;  // a place counts its failures before its chunks
}

void OutputFlow::hear(std::function<void()> failure) {
    ++unheard_;
    io_.post([this, failure = std::move(failure)] {
        failure();
        --unheard_;
        progress();
    });
}

void OutputFlow::limit(Deadline deadline) {
    limit_timer_.set(deadline, [this] { abandon_stuck(); });
}

void OutputFlow::abandon_stuck() {
    const auto stuck = output_->abandon_stuck();
    if (stuck.console && !std::exchange(is_console_abandoned_, true)) {
        losses_.emplace_back("nobody read the console; the rest of the output is lost there");
    }
    if (stuck.files) {
        is_folder_abandoned_ = true;
        file_failed("--output-filename: waited too long for a file below " + folder_ +
                    "; the rest of the output is lost there");
    }
    if (stuck.console || stuck.files) {
        progress();
    }
}

void OutputFlow::progress() {
    give_credit();
    events_.on_progress();
}

void OutputFlow::give_credit() {
    const auto pending = output_->pending_bytes();
    for (std::size_t host = 0; host < received_bytes_.size(); ++host) {
        const auto disposed =
            received_bytes_[host] - std::min<std::uint64_t>(received_bytes_[host], pending);
        if (disposed >= credited_bytes_[host] + window_ / kStepsPerWindow) {
            fleet_.send(host, wire::Credit{.bytes = disposed - credited_bytes_[host]});
            credited_bytes_[host] = disposed;
        }
    }
}

void OutputFlow::watch_console() {
    if (is_watching_ || output_->stdout_pending_bytes() == 0) {
        return;
    }
    is_watching_ = true;
    await_console(output_->stdout_writes(), {});
}

void OutputFlow::await_console(std::uint64_t writes, std::chrono::seconds stuck) {
    console_timer_.set(io_.in(kConsoleLook), [this, writes, stuck] {
        const auto now = output_->stdout_writes();
        const auto stuck_now = now == writes ? stuck + kConsoleLook : std::chrono::seconds(0);
        is_watching_ = output_->stdout_pending_bytes() != 0 && stuck_now < kConsoleTimeout;
        if (is_watching_) {
            await_console(now, stuck_now);
        } else if (stuck_now >= kConsoleTimeout) {
            // Said once: whoever reads again will see where it stopped.
            constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
            say("standard output is not being read; the ranks wait once " +
                std::to_string(window_ * fleet_.size() / kMiB) + " MiB are on their way");
        }
    });
}

void OutputFlow::console_failed(OutputStream stream, int error_number) {
    if (stream == OutputStream::err) {
        losses_.push_back(system_error("standard error", error_number).message);
        return;
    }
    if (error_number == EPIPE) {
        events_.on_console_closed();
        return;
    }
    losses_.push_back(system_error("standard output", error_number).message);
    say(losses_.back() + "; the rest of the output is lost there, the job goes on");
}

void OutputFlow::file_failed(const std::string& text) {
    losses_.push_back(text);
    say(text);
}

}  // namespace hvd::launch
