// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/command_transport.hpp"

#include "collectives/base/text.hpp"

#include <chrono>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kKeptErrors = 4'096;  // bytes of standard error
constexpr std::size_t kShownErrors = 1'000;
constexpr auto kNow = std::chrono::milliseconds(0);

/// A program whose output has closed has nothing more to do.
constexpr auto kEndTimeout = std::chrono::seconds(3);

/// Something that it left behind (a shared ssh connection) may keep its streams open.
constexpr auto kStreamTimeout = std::chrono::milliseconds(200);

}  // namespace

CommandTransport::CommandTransport(IoThread& io,
                                   std::vector<std::string> argv,
                                   const sigset_t& signal_mask)
    : io_(io), argv_(std::move(argv)), signal_mask_(signal_mask), timeout_(io) {}

CommandTransport::~CommandTransport() {
    if (streams_ && !process_over_) {
        // It leads its group; while it is not reaped nobody else has that number.
        (void)::kill(-streams_->pid, SIGKILL);
        (void)::waitpid(streams_->pid, nullptr, 0);
    }
}

void CommandTransport::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    auto child = spawn_child(argv_, signal_mask_);
    if (!child) {
        timeout_.set(Deadline::in(kNow), [this, error = std::move(child).error()]() mutable {
            handlers_.on_end(std::move(error));
        });
        return;
    }
    streams_ = std::make_unique<ChildStreams>(io_, std::move(child).value());
    streams_->output.start(
        {.on_bytes = [this](std::span<const std::byte> bytes) { handlers_.on_bytes(bytes); },
         .on_end =
             [this](std::optional<Error> error) {
                 output_over_ = true;
                 error_ = std::move(error);
                 finish_if_over();
             }});
    streams_->errors.start({.on_bytes =
                                [this](std::span<const std::byte> bytes) {
                                    errors_.append(reinterpret_cast<const char*>(bytes.data()),
                                                   bytes.size());
                                    if (errors_.size() > kKeptErrors) {
                                        errors_.erase(0, errors_.size() - kKeptErrors);
                                    }
                                },
                            .on_end =
                                [this](const std::optional<Error>& /*unused*/) {
                                    errors_over_ = true;
                                    finish_if_over();
                                }});
    streams_->when_ended([this](int wait_status) {
        wait_status_ = wait_status;
        process_over_ = true;
        finish_if_over();
    });
    handlers_.on_linked();
}

void CommandTransport::send(std::vector<std::byte> bytes) {
    if (streams_) {
        streams_->input.send(std::move(bytes));
    }
}

void CommandTransport::when_sent(std::function<void()> sent) {
    if (streams_) {
        streams_->input.when_sent(std::move(sent));
    } else {
        sent();
    }
}

void CommandTransport::close() {
    if (streams_) {
        streams_->input.close();
    }
}

std::string CommandTransport::progress() const {
    const auto words = one_line(errors_, kShownErrors);
    return "through " + argv_.front() + (words.empty() ? "" : ", which says: " + words);
}

void CommandTransport::finish_if_over() {
    if (is_told_) {
        return;
    }
    if (process_over_ && output_over_ && errors_over_) {
        finish();
    } else if (process_over_) {
        timeout_.set(Deadline::in(kStreamTimeout), [this] { finish(); });
    } else if (output_over_) {
        streams_->input.close();
        timeout_.set(Deadline::in(kEndTimeout), [this] {
            if (!error_) {
                error_ = Error{Errc::unavailable, "does not end, though its output has closed"};
            }
            finish();
        });
    }
}

void CommandTransport::finish() {
    if (std::exchange(is_told_, true)) {
        return;
    }
    timeout_.cancel();
    if (process_over_ && wait_status_ != 0) {
        error_ = Error{Errc::unavailable, describe_exit(wait_status_)};
    }
    if (error_) {
        const auto words = one_line(errors_, kShownErrors);
        error_->message =
            argv_.front() + " " + error_->message + (words.empty() ? "" : ": " + words);
    }
    handlers_.on_end(std::move(error_));
}

}  // namespace hvd::launch
