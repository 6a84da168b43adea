// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/slurm/srun_step.hpp"

#include "collectives/base/deadline.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/slurm/srun_line.hpp"

#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <poll.h>
#include <sys/wait.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMostLines = 8;
constexpr std::size_t kLongestLine = 500;
constexpr std::size_t kMostTold = std::size_t{4} << 20;  // bytes, of its lines while ranks run
constexpr std::size_t kSizeOfALine = 32;                 // besides its words

/// srun's last messages may come after its end.
constexpr auto kWordsTimeout = std::chrono::milliseconds(200);

/// Agents print for users who started them by hand; the launcher gets the same over their
/// connection.
constexpr std::string_view kOfAgents = "hvd-agent: ";

/// srun's warning about --cpu-bind=none where Slurm binds nothing.
constexpr std::string_view kHarmless = "lacks support for cpu binding";

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<std::unique_ptr<SrunStep>> SrunStep::start(IoThread& io, Spawn spawn, Handlers handlers) {
    HVD_TRY(auto child, spawn_child(spawn.line, spawn.signal_mask, &spawn.environment));
    std::unique_ptr<SrunStep> step(new SrunStep(io, std::move(spawn), std::move(handlers)));
    step->open(std::make_unique<ChildStreams>(io, std::move(child)));
    return step;
}

SrunStep::SrunStep(IoThread& io, Spawn spawn, Handlers handlers)
    : spawn_(std::move(spawn)), handlers_(std::move(handlers)), last_words_(io) {}

void SrunStep::open(std::unique_ptr<ChildStreams> streams) {
    streams_ = std::move(streams);
    const auto ignore_end = [](const std::optional<Error>& /*unused*/) {};
    streams_->output.start(
        {.on_bytes = [this](std::span<const std::byte> bytes) { hear_tasks(text_of(bytes)); },
         .on_end = ignore_end});
    streams_->errors.start(
        {.on_bytes = [this](std::span<const std::byte> bytes) { hear(text_of(bytes)); },
         .on_end = ignore_end});
    streams_->when_ended([this](int wait_status) {
        is_over_ = true;
        last_words_.set(Deadline::in(kWordsTimeout), [this, wait_status] { finish(wait_status); });
    });
    streams_->input.send(bytes_of(std::exchange(spawn_.token, {}) + "\n"));
}

SrunStep::~SrunStep() {
    if (is_over_) {
        return;
    }
    streams_->input.close();
    // Its number is its own while it is not reaped. TERM makes it end its tasks.
    if (!are_all_there_ || !wait(kTimeoutMs)) {
        (void)::kill(streams_->pid, SIGTERM);
        if (!wait(kTimeoutMs)) {
            (void)::kill(-streams_->pid, SIGKILL);
        }
    }
    while (::waitpid(streams_->pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

/// Whether it has ended. Blocks: nothing else is left to do by then.
bool SrunStep::wait(int milliseconds) {
    const auto deadline = Deadline::in(std::chrono::milliseconds(milliseconds));
    pollfd ended{.fd = streams_->process.fd(), .events = POLLIN, .revents = 0};
    int count = 0;
    do {
        count = ::poll(&ended, 1, deadline.poll_timeout_ms());
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

void SrunStep::all_are_there() {
    are_all_there_ = true;
    spawn_.agent.clear();
    streams_->input.close();
}

void SrunStep::hear(std::string_view text) {
    for (const char character : text) {
        if (character == '\n') {
            hear_line(std::exchange(open_line_, {}));
        } else if (open_line_.size() < kLongestLine) {
            open_line_ += character;
        }
    }
}

/// The lines wait in memory where nobody reads what horovodrun says.
void SrunStep::tell(const std::string& line) {
    if (told_bytes_ >= kMostTold) {
        return;
    }
    handlers_.on_line(line);
    told_bytes_ += line.size() + kSizeOfALine;
    if (told_bytes_ >= kMostTold) {
        handlers_.on_line("it has said " + std::to_string(kMostTold >> 20U) +
                          " MiB; what else it says is not shown");
    }
}

void SrunStep::hear_line(std::string line) {
    if (are_all_there_ && !line.starts_with(kOfAgents)) {
        tell(line);
    }
    if (line.find(kHarmless) != std::string::npos) {
        return;
    }
    last_lines_.push_back(std::move(line));
    if (last_lines_.size() > kMostLines) {
        last_lines_.pop_front();
    }
}

/// One that has no agent asks; all get it, and the others do not read it.
void SrunStep::hear_tasks(std::string_view text) {
    if (has_sent_ || are_all_there_) {
        return;
    }
    asked_ += text;
    if (asked_.find(kSrunSend) == std::string::npos) {
        asked_.erase(0, asked_.rfind('\n') == std::string::npos ? 0 : asked_.rfind('\n') + 1);
        return;
    }
    has_sent_ = true;
    streams_->input.send(bytes_of(std::exchange(spawn_.agent, {})));
}

std::string SrunStep::words() const {
    std::string words;
    for (const auto& line : last_lines_) {
        words += (words.empty() ? "" : " | ") + line;
    }
    return words;
}

void SrunStep::finish(int wait_status) const {
    if (!are_all_there_) {
        const auto said = words();
        handlers_.on_end({Errc::unavailable, "srun " + describe_exit(wait_status) +
                                                 (said.empty() ? "" : ": " + said)});
    }
}

}  // namespace hvd::launch
