// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/channel.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::size_t kUploadPiece = std::size_t{256} << 10;
constexpr auto kNow = std::chrono::milliseconds(0);

}  // namespace

BootstrapChannel::BootstrapChannel(IoThread& io, Parts parts)
    : image_(std::move(parts.image)),
      timeout_(parts.timeout),
      tell_banner_(std::move(parts.banner)),
      tell_step_(std::move(parts.step)),
      silence_(io),
      soon_(io),
      permit_(std::move(parts.semaphore)),
      transport_(std::move(parts.transport)) {}

BootstrapChannel::~BootstrapChannel() = default;

void BootstrapChannel::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    permit_.take([this] { soon_.set(Deadline::in(kNow), [this] { begin(); }); });
}

void BootstrapChannel::begin() {
    has_begun_ = true;
    transport_->open(
        {.on_linked =
             [this] {
                 if (state_ == State::waiting) {
                     state_ = State::linked;
                     expect_life();
                 }
             },
         .on_bytes = [this](std::span<const std::byte> bytes) { receive(bytes); },
         .on_end = [this](std::optional<Error> error) { transport_ended(std::move(error)); }});
}

void BootstrapChannel::receive(std::span<const std::byte> bytes) {
    if (state_ == State::started) {
        handlers_.on_bytes(bytes);
        return;
    }
    if (state_ == State::over) {
        return;
    }
    expect_life();
    filter_.feed(bytes);
    while (state_ == State::linked || state_ == State::waiting) {
        auto event = filter_.next();
        switch (event.kind) {
            case BootstrapFilter::Kind::nothing: return;
            case BootstrapFilter::Kind::in_shell: enter("finding the agent"); break;
            case BootstrapFilter::Kind::send_agent:
                was_asked_for_agent_ = true;
                enter("sending the agent");
                upload(0);
                break;
            case BootstrapFilter::Kind::started: start_stream(std::move(event.text)); return;
            case BootstrapFilter::Kind::failed:
                fail({Errc::unavailable, std::move(event.text)});
                return;
        }
    }
}

void BootstrapChannel::start_stream(std::string first) {
    state_ = State::started;
    enter("agent");
    silence_.cancel();
    permit_.give_up();
    image_.reset();
    if (auto banner = filter_.banner(); !banner.empty() && tell_banner_) {
        tell_banner_(std::move(banner));
    }
    for (auto& bytes : std::exchange(held_, {})) {
        transport_->send(std::move(bytes));
    }
    for (auto& call : std::exchange(held_calls_, {})) {
        transport_->when_sent(std::move(call));
    }
    handlers_.on_bytes(std::as_bytes(std::span(first)));
}

/// In pieces: with hundreds of hosts as many whole copies would be queued.
void BootstrapChannel::upload(std::size_t from) {
    const auto& file = image_->file;
    const auto size = std::min(kUploadPiece, file.size() - from);
    const auto piece = std::as_bytes(std::span(file)).subspan(from, size);
    transport_->send({piece.begin(), piece.end()});
    if (from + size < file.size()) {
        transport_->when_sent([this, next = from + size] {
            if (state_ == State::linked) {
                expect_life();
                upload(next);
            }
        });
    }
}

void BootstrapChannel::enter(std::string_view step) {
    if (tell_step_) {
        tell_step_(step);
    }
}

void BootstrapChannel::expect_life() {
    heard_at_ = std::chrono::steady_clock::now();
    silence_.set(Deadline::in(timeout_), [this] { fail({Errc::timed_out, silence(timeout_)}); });
}

std::string BootstrapChannel::silence(std::chrono::milliseconds span) const {
    const auto banner = filter_.banner();
    return transport_->progress() + ": the agent did not start: nothing came for " +
           rounded_seconds(span) + (was_asked_for_agent_ ? " after it was sent" : "") +
           (banner.empty() ? "" : "; it printed: " + banner);
}

std::string BootstrapChannel::progress() const {
    switch (state_) {
        case State::waiting:
            return has_begun_ ? transport_->progress() : "waiting for its turn (--ssh-concurrency)";
        case State::linked:
            return silence(std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::steady_clock::now() - heard_at_));
        case State::started: return "its agent has started, but does not tell of its host";
        case State::over: break;
    }
    return {};
}

void BootstrapChannel::send(std::vector<std::byte> bytes) {
    if (state_ == State::started) {
        transport_->send(std::move(bytes));
    } else if (state_ != State::over) {
        held_.push_back(std::move(bytes));
    }
}

void BootstrapChannel::when_sent(std::function<void()> sent) {
    if (state_ == State::started) {
        transport_->when_sent(std::move(sent));
    } else if (state_ == State::over) {
        sent();
    } else {
        held_calls_.push_back(std::move(sent));
    }
}

void BootstrapChannel::close() {
    if (state_ == State::started) {
        transport_->close();
    } else if (state_ != State::over) {
        fail({Errc::aborted, "the agent was not waited for"});
    }
}

/// Before the agent's stream there is nothing on the host that needs to be ended in an orderly way.
void BootstrapChannel::fail(Error error) {
    state_ = State::over;
    silence_.cancel();
    soon_.set(Deadline::in(kNow), [this, failure = std::move(error)]() mutable {
        transport_.reset();
        end(std::move(failure));
    });
}

void BootstrapChannel::transport_ended(std::optional<Error> error) {
    if (state_ == State::over) {
        return;  // the reason is known and on its way
    }
    if (state_ == State::linked && transport_->try_next_line()) {
        silence_.cancel();
        filter_ = BootstrapFilter();
        state_ = State::waiting;
        return;
    }
    if (std::exchange(state_, State::over) == State::started) {
        end(std::move(error));
        return;
    }
    const auto banner = filter_.banner();
    const auto cause = error ? error->message : "the connection was closed before the agent spoke";
    end(Error{error ? error->code : Errc::unavailable,
              cause + (banner.empty() ? "" : "; it printed: " + banner)});
}

void BootstrapChannel::end(std::optional<Error> error) {
    silence_.cancel();
    permit_.give_up();
    for (const auto& call : std::exchange(held_calls_, {})) {
        call();
    }
    handlers_.on_end(std::move(error));
}

}  // namespace hvd::launch
