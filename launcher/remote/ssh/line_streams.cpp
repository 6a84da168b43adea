// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/line_streams.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kPiece = 32'000;  // bytes; what one packet takes
constexpr std::size_t kKeptErrors = 4'096;
constexpr auto kLastWords = std::chrono::milliseconds(500);

}  // namespace

LineStreams::LineStreams(IoThread& io, std::function<void()> on_silence)
    : on_silence_(std::move(on_silence)), last_words_(io) {}

LineStreams::Pumped LineStreams::pump(
    SshSession& session,
    const std::function<void(std::span<const std::byte>)>& on_bytes) {
    // The call that began a packet must finish it.
    auto taken = Pumped::nothing;
    if (pending_ != Pending::write) {
        taken = take(session, on_bytes);
    }
    if (taken == Pumped::ended || taken == Pumped::failed) {
        return taken;
    }
    auto given = Pumped::nothing;
    if (pending_ != Pending::read) {
        given = give(session);
    }
    if (given != Pumped::nothing || taken != Pumped::nothing) {
        return given == Pumped::nothing ? taken : given;
    }
    if (pending_ == Pending::nothing && session.has_unread()) {
        return take(session, on_bytes);  // it came while we looked for something else
    }
    return Pumped::nothing;
}

LineStreams::Pumped LineStreams::take(
    SshSession& session,
    const std::function<void(std::span<const std::byte>)>& on_bytes) {
    std::array<std::byte, kPiece> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
    auto taken = Pumped::nothing;
    for (const auto stream : {SshSession::Stream::output, SshSession::Stream::errors}) {
        std::size_t size = 0;
        const auto step = session.read(stream, buffer, size);
        pending_ = step == Step::again && session.is_sending() ? Pending::read : Pending::nothing;
        if (step == Step::failed) {
            return Pumped::failed;
        }
        if (pending_ == Pending::read) {
            return taken;
        }
        if (size == 0) {
            if (!session.has_unread()) {
                break;
            }
            continue;
        }
        taken = Pumped::some;
        if (stream == SshSession::Stream::output) {
            on_bytes(std::span(buffer).first(size));
        } else {
            errors_.append(reinterpret_cast<const char*>(buffer.data()), size);
            errors_.erase(0, errors_.size() - std::min(errors_.size(), kKeptErrors));
        }
    }
    if (taken == Pumped::nothing && (session.has_ended() || is_silent_)) {
        return Pumped::ended;
    }
    if (!has_exited_ && session.exit_words()) {
        await_last_words();
    }
    return taken;
}

/// Something that ~/.bashrc has started may keep the streams open for as long as it lives.
void LineStreams::await_last_words() {
    has_exited_ = true;
    last_words_.set(Deadline::in(kLastWords), [this] {
        is_silent_ = true;
        on_silence_();
    });
}

LineStreams::Pumped LineStreams::give(SshSession& session) {
    auto given = Pumped::nothing;
    pending_ = Pending::nothing;
    while (!queue_.empty()) {
        const auto rest = std::span<const std::byte>(queue_.front()).subspan(front_sent_);
        std::size_t size = 0;
        const auto step = session.write(rest.first(std::min(rest.size(), kPiece)), size);
        if (step == Step::failed) {
            return Pumped::failed;
        }
        if (step == Step::again) {
            pending_ = session.is_sending() ? Pending::write : Pending::nothing;
            return given;
        }
        given = Pumped::some;
        front_sent_ += size;
        if (front_sent_ == queue_.front().size()) {
            queue_.pop_front();
            front_sent_ = 0;
        }
    }
    report_sent();
    if (queue_.empty() && is_closing_ && !is_end_sent_) {
        const auto step = session.send_end();
        is_end_sent_ = step != Step::again;
        pending_ = step == Step::again && session.is_sending() ? Pending::write : Pending::nothing;
    }
    return given;
}

bool LineStreams::send(std::vector<std::byte> bytes) {
    if (is_closing_ || bytes.empty()) {
        return false;
    }
    queue_.push_back(std::move(bytes));
    return true;
}

void LineStreams::when_sent(std::function<void()> sent) {
    if (queue_.empty()) {
        sent();
        return;
    }
    sent_calls_.push_back(std::move(sent));
}

void LineStreams::report_sent() {
    for (const auto& call : std::exchange(sent_calls_, {})) {
        call();
    }
}

void LineStreams::begin_line() {
    errors_.clear();
    pending_ = Pending::nothing;
    has_exited_ = is_silent_ = false;
}

void LineStreams::stop() {
    last_words_.cancel();
    report_sent();
}

}  // namespace hvd::launch::ssh
