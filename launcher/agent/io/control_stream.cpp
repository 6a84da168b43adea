// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/control_stream.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxSentKept = std::size_t{1} << 20;  // in a queue that is never empty

void append(std::vector<std::byte>& queue, std::span<const std::byte> bytes) {
    queue.insert(queue.end(), bytes.begin(), bytes.end());
}

iovec as_iovec(std::span<const std::byte> bytes) {
    // writev only reads, but its type does not say so.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace

ControlStream::ControlStream(EventLoop& loop,
                             int from_launcher,
                             int to_launcher,
                             std::optional<wire::Encryption> encryption)
    : loop_(loop),
      from_launcher_(from_launcher),
      to_launcher_(to_launcher),
      encryption_(std::move(encryption)) {
    const auto magic = std::as_bytes(std::span(wire::kMagic));
    append(queue_, encryption_ ? encryption_->encryptor.encrypt(magic)
                               : std::vector(magic.begin(), magic.end()));
    // A pipe or socket of our own: nobody else shares the open file description.
    const int flags = ::fcntl(to_launcher_, F_GETFL);
    (void)::fcntl(to_launcher_, F_SETFL, flags | O_NONBLOCK);
}

void ControlStream::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    loop_.watch(from_launcher_, EPOLLIN, [this](std::uint32_t) { read(); });
}

void ControlStream::send(const wire::FromAgent& message) {
    is_urgent_ = true;
    queue(message);
}

void ControlStream::send_soon(const wire::FromAgent& message) {
    if (!due_) {
        due_ = std::chrono::steady_clock::now() + kLongestWait;
    }
    queue(message);
}

void ControlStream::queue(const wire::FromAgent& message) {
    if (is_finished()) {
        return;
    }
    const auto frame = wire::encode(message);
    append(queue_, encryption_ ? encryption_->encryptor.encrypt(frame) : frame);
}

void ControlStream::finish() {
    if (encryption_ && !is_finished()) {
        is_urgent_ = true;
        append(queue_, encryption_->encryptor.finish());
    }
}

void ControlStream::send_output(std::span<const std::byte> header,
                                std::span<const std::byte> payload) {
    if (!encryption_) {
        write(header, payload);
    } else if (!is_finished()) {
        write(encryption_->encryptor.encrypt(header, payload), {});
    }
}

void ControlStream::flush() {
    const bool may_wait = !is_urgent_ && due_ && std::chrono::steady_clock::now() < *due_;
    if (!is_waiting_to_write_ && !may_wait) {
        write({}, {});
    }
}

void ControlStream::write(std::span<const std::byte> header, std::span<const std::byte> payload) {
    is_urgent_ = false;
    due_.reset();
    if (has_ended_) {
        queue_.clear();
        sent_ = 0;
        return;
    }
    auto old = unsent();
    if (!is_waiting_to_write_ && old.size() + header.size() > 0) {
        const std::array<iovec, 3> parts{as_iovec(old), as_iovec(header), as_iovec(payload)};
        const auto count = ::writev(to_launcher_, parts.data(), static_cast<int>(parts.size()));
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            end(errno == EPIPE ? std::nullopt
                               : std::optional(system_error("control stream", errno)));
            return;
        }
        auto left = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        for (auto* part : {&old, &header, &payload}) {
            const auto taken = std::min(left, part->size());
            *part = part->subspan(taken);
            left -= taken;
        }
        sent_ = queue_.size() - old.size();
    }
    if (old.empty()) {
        queue_.clear();
        sent_ = 0;
    } else if (sent_ >= kMaxSentKept) {
        queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(sent_));
        sent_ = 0;
    }
    append(queue_, header);
    append(queue_, payload);
    if (!queue_.empty() && !is_waiting_to_write_) {
        is_waiting_to_write_ = true;
        loop_.watch(to_launcher_, EPOLLOUT, [this](std::uint32_t) {
            is_waiting_to_write_ = false;
            loop_.forget(to_launcher_);
            write({}, {});
        });
    }
}

void ControlStream::read() {
    std::array<std::byte, kReadBytes> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto count = ::read(from_launcher_, bytes.data(), bytes.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (count <= 0) {
        const bool was_cut = encryption_ && !encryption_->decryptor.has_ended();
        end(count < 0 ? std::optional(system_error("control stream", errno))
            : was_cut ? std::optional(wire::stream_cut())
                      : std::nullopt);
        return;
    }
    const auto came = std::span(bytes).first(static_cast<std::size_t>(count));
    heard_bytes_ += came.size();
    if (!encryption_) {
        take(came);
        return;
    }
    if (const auto plain = encryption_->decryptor.decrypt(came)) {
        take(*plain);
    } else {
        end(plain.error());
    }
}

void ControlStream::take(std::span<const std::byte> bytes) {
    reader_.feed(bytes);
    while (!has_ended_) {
        auto message = reader_.next();
        if (!message) {
            end(std::move(message).error());
            return;
        }
        if (!*message) {
            return;
        }
        handlers_.on_message(std::move(**message));
    }
}

void ControlStream::end(std::optional<Error> error) {
    if (std::exchange(has_ended_, true)) {
        return;
    }
    loop_.forget(from_launcher_);
    if (std::exchange(is_waiting_to_write_, false)) {
        loop_.forget(to_launcher_);
    }
    queue_.clear();
    sent_ = 0;
    if (handlers_.on_end) {
        handlers_.on_end(std::move(error));
    }
}

}  // namespace hvd::launch::agent
