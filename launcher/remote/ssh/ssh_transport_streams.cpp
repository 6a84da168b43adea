// SPDX-License-Identifier: Apache-2.0
//
// The part of SshTransport that carries bytes once a line runs, and goes on to the next one.
#include "launcher/remote/ssh/ssh_transport.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kPiece = 32'000;  // bytes; what one packet takes
constexpr std::size_t kKeptErrors = 4'096;
constexpr auto kLastWords = std::chrono::milliseconds(500);

}  // namespace

bool SshTransport::pump() {
    // The call that began a packet must finish it.
    bool went_on = false;
    if (pending_ != Pending::write) {
        went_on = pump_in();
    }
    if (state_ == State::running && pending_ != Pending::read) {
        went_on = pump_out() || went_on;
    }
    if (!went_on && state_ == State::running && pending_ == Pending::nothing &&
        session_->has_unread()) {
        return pump_in();  // it came while we looked for something else
    }
    return went_on;
}

bool SshTransport::pump_in() {
    std::array<std::byte, kPiece> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled
    bool went_on = false;
    for (const auto stream : {SshSession::Stream::output, SshSession::Stream::errors}) {
        std::size_t size = 0;
        const auto step = session_->read(stream, buffer, size);
        pending_ = step == Step::again && session_->is_sending() ? Pending::read : Pending::nothing;
        if (step == Step::failed) {
            fail(Errc::unavailable, session_->last_error());
            return false;
        }
        if (pending_ == Pending::read) {
            return went_on;
        }
        if (size == 0) {
            if (!session_->has_unread()) {
                break;
            }
            continue;
        }
        went_on = true;
        if (stream == SshSession::Stream::output) {
            handlers_.on_bytes(std::span(buffer).first(size));
        } else {
            errors_.append(reinterpret_cast<const char*>(buffer.data()), size);
            errors_.erase(0, errors_.size() - std::min(errors_.size(), kKeptErrors));
        }
        if (state_ != State::running) {
            return false;
        }
    }
    if (!went_on && (session_->has_ended() || is_silent_)) {
        enter(State::closing);
        return true;
    }
    if (!has_exited_ && session_->exit_words()) {
        has_exited_ = true;
        // Something that ~/.bashrc has started may keep its streams open for as long as it lives.
        last_words_.set(Deadline::in(kLastWords), [this] {
            is_silent_ = true;
            drive();
        });
    }
    return went_on;
}

bool SshTransport::pump_out() {
    bool went_on = false;
    pending_ = Pending::nothing;
    while (!queue_.empty()) {
        const auto rest = std::span<const std::byte>(queue_.front()).subspan(front_sent_);
        std::size_t size = 0;
        const auto step = session_->write(rest.first(std::min(rest.size(), kPiece)), size);
        if (step == Step::failed) {
            fail(Errc::unavailable, session_->last_error());
            return false;
        }
        if (step == Step::again) {
            pending_ = session_->is_sending() ? Pending::write : Pending::nothing;
            return went_on;
        }
        went_on = true;
        front_sent_ += size;
        if (front_sent_ == queue_.front().size()) {
            queue_.pop_front();
            front_sent_ = 0;
        }
    }
    report_sent();
    if (queue_.empty() && is_closing_ && !is_end_sent_) {
        const auto step = session_->send_end();
        is_end_sent_ = step != Step::again;
        pending_ =
            step == Step::again && session_->is_sending() ? Pending::write : Pending::nothing;
    }
    return went_on;
}

void SshTransport::report_sent() {
    for (const auto& call : std::exchange(sent_calls_, {})) {
        call();
    }
}

void SshTransport::send(std::vector<std::byte> bytes) {
    if (state_ == State::over || is_closing_ || bytes.empty()) {
        return;
    }
    queue_.push_back(std::move(bytes));
    wake();
}

void SshTransport::when_sent(std::function<void()> sent) {
    if (queue_.empty() || state_ >= State::closing) {
        sent();
        return;
    }
    sent_calls_.push_back(std::move(sent));
}

void SshTransport::close() {
    is_closing_ = true;
    if (state_ == State::running) {
        wake();
    }
}

/// Over the same connection, if it stands.
bool SshTransport::try_next_line() {
    if (state_ != State::over || line_ + 1 >= lines_.size()) {
        return false;
    }
    ++line_;
    errors_.clear();
    if (!is_line_over_) {
        soon_.set(Deadline::in({}), [this] { connect(); });
        return true;
    }
    session_->forget_channel();
    has_exited_ = is_silent_ = false;
    enter(State::open_channel);
    wake();
    return true;
}

}  // namespace hvd::launch::ssh
