// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/input_feeder.hpp"

#include "collectives/base/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace hvd::launch::agent {

void InputFeeder::add_reader(int rank) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Exception(system_error("pipe", errno));
    }
    auto& reader = readers_[rank];
    reader.read_end.reset(ends[0]);
    reader.fd.reset(ends[1]);
    // Of our end only: the ends of a pipe have each their own flags.
    (void)::fcntl(reader.fd.get(), F_SETFL, O_WRONLY | O_NONBLOCK);
}

void InputFeeder::add_terminal(int rank, UniqueFd user_end) {
    auto& reader = readers_[rank];
    reader.fd = std::move(user_end);
    reader.position = kept_from_ + kept_.size();
}

UniqueFd InputFeeder::take_read_end(int rank) {
    const auto reader = readers_.find(rank);
    return reader == readers_.end() ? UniqueFd() : std::move(reader->second.read_end);
}

void InputFeeder::rank_ended(int rank) {
    if (const auto reader = readers_.find(rank); reader != readers_.end()) {
        close(reader->second);
        discard_taken();
    }
}

void InputFeeder::feed(std::span<const std::byte> bytes) {
    is_at_end_ = is_at_end_ || bytes.empty();
    kept_.insert(kept_.end(), bytes.begin(), bytes.end());
    for (auto& [rank, reader] : readers_) {
        write(reader);
    }
    discard_taken();
}

std::uint64_t InputFeeder::take_progress() {
    return kept_from_ - std::exchange(reported_, kept_from_);
}

void InputFeeder::write(Reader& reader) {
    while (reader.fd && !reader.is_waiting) {
        const auto left = std::span(kept_).subspan(reader.position - kept_from_);
        if (left.empty()) {
            if (is_at_end_) {
                close(reader);
            }
            return;
        }
        const auto count = ::write(reader.fd.get(), left.data(), left.size());
        if (count > 0) {
            reader.position += static_cast<std::uint64_t>(count);
        } else if (errno == EAGAIN) {
            reader.is_waiting = true;
            loop_.watch(reader.fd.get(), EPOLLOUT, [this, &reader](std::uint32_t) {
                loop_.forget(reader.fd.get());
                reader.is_waiting = false;
                write(reader);
                discard_taken();
            });
        } else if (errno != EINTR) {
            close(reader);  // nobody reads any more
        }
    }
}

void InputFeeder::close(Reader& reader) {
    if (std::exchange(reader.is_waiting, false)) {
        loop_.forget(reader.fd.get());
    }
    reader.fd.reset();
}

void InputFeeder::discard_taken() {
    auto taken = kept_from_ + kept_.size();
    for (const auto& [rank, reader] : readers_) {
        if (reader.fd) {
            taken = std::min(taken, reader.position);
        }
    }
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(taken - kept_from_));
    kept_from_ = taken;
}

}  // namespace hvd::launch::agent
