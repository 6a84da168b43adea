// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/caller_stream.hpp"

#include "collectives/base/bytes.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "launcher/wire/messages.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

/// The number of the piece in "task/call/3".
std::optional<std::size_t> piece_of(std::string_view key) {
    if (!key.starts_with(coll::kCallKey)) {
        return std::nullopt;
    }
    key.remove_prefix(coll::kCallKey.size());
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
    const bool is_whole = error == std::errc() && end == key.data() + key.size();
    return is_whole ? std::optional(number) : std::nullopt;
}

std::vector<std::byte> frame_of(std::int32_t rank, std::span<const std::byte> bytes) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::vector<std::byte> frame(sizeof rank + sizeof size + bytes.size());
    std::memcpy(frame.data(), &rank, sizeof rank);
    std::memcpy(frame.data() + sizeof rank, &size, sizeof size);
    std::ranges::copy(bytes, frame.begin() + sizeof rank + sizeof size);
    return frame;
}

}  // namespace

UniqueFd adopt_caller(const LaunchRequest& request) {
    if (!request.caller) {
        return {};
    }
    (void)::fcntl(*request.caller, F_SETFD, FD_CLOEXEC);
    return UniqueFd(*request.caller);
}

CallerStream::CallerStream(IoThread& io, UniqueFd socket, Send send, std::function<void()> on_gone)
    : socket_(io, std::move(socket)), send_(std::move(send)), on_gone_(std::move(on_gone)) {
    socket_.wait_readable([this] { read(); });
}

bool CallerStream::owns(std::string_view key) {
    return key.starts_with(coll::kTaskKeys);
}

wire::ToAgent CallerStream::refusal(const wire::Put& event) {
    return wire::PutDone{.rank = event.rank,
                         .request = event.request,
                         .error =
                             "horovod.run did not start this job: nobody takes the result of "
                             "a function"};
}

/// A piece of nothing: there is no call.
wire::ToAgent CallerStream::refusal(const wire::Get& event) {
    return wire::GetValue{.rank = event.rank, .request = event.request, .value = {}};
}

// ---- the call -----------------------------------------------------------------------------------

void CallerStream::read() {
    const auto known = call_.size();
    call_.resize(known + kReadBytes);
    const auto count = ::recv(socket_.fd(), call_.data() + known, kReadBytes, MSG_DONTWAIT);
    const bool is_gone = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    call_.resize(known + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (is_gone) {
        on_gone_();
        return;
    }
    const auto waiting = std::exchange(readers_, {});
    for (const auto& reader : waiting) {
        answer(reader);
    }
    socket_.wait_readable([this] { read(); });
}

/// Whether the piece that begins there is whole, or is past the end.
bool CallerStream::has(std::size_t begin) const {
    if (call_.size() >= begin + coll::kTaskPieceBytes) {
        return true;
    }
    if (call_.size() < kLengthBytes) {
        return false;
    }
    std::uint64_t length = 0;
    std::memcpy(&length, call_.data(), sizeof length);
    return call_.size() - kLengthBytes >= length;
}

void CallerStream::answer(const Reader& reader) {
    if (!has(reader.begin)) {
        readers_.push_back(reader);
        return;
    }
    const auto begin = std::min(reader.begin, call_.size());
    const auto piece =
        std::span(call_).subspan(begin, std::min(coll::kTaskPieceBytes, call_.size() - begin));
    send_(reader.host, wire::GetValue{.rank = reader.rank,
                                      .request = reader.request,
                                      .value = {piece.begin(), piece.end()}});
}

void CallerStream::on(std::size_t host, const wire::Get& event) {
    const auto piece = piece_of(event.key);
    if (!piece || *piece > call_.max_size() / coll::kTaskPieceBytes) {
        send_(host, refusal(event));
        return;
    }
    answer({.host = host,
            .rank = event.rank,
            .request = event.request,
            .begin = *piece * coll::kTaskPieceBytes});
}

// ---- results ------------------------------------------------------------------------------------

void CallerStream::on(std::size_t host, wire::Put& event) {
    if (event.key != coll::kResultKey || event.value.size() > coll::kTaskPieceBytes) {
        send_(host, wire::PutDone{.rank = event.rank,
                                  .request = event.request,
                                  .error = "a piece of a result has the key " +
                                           std::string(coll::kResultKey) + " and at most " +
                                           std::to_string(coll::kTaskPieceBytes) + " bytes"});
        return;
    }
    frames_.push_back({.bytes = frame_of(event.rank, event.value),
                       .host = host,
                       .rank = event.rank,
                       .request = event.request});
    if (frames_.size() == 1) {
        write();
    }
}

void CallerStream::write() {
    while (!frames_.empty()) {
        const auto& frame = frames_.front();
        const auto rest = std::span(frame.bytes).subspan(sent_bytes_);
        const auto count =
            ::send(socket_.fd(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            return;  // the caller has gone, which `read` sees
        }
        sent_bytes_ += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        if (sent_bytes_ < frame.bytes.size()) {
            socket_.wait_writable([this] { write(); });
            return;
        }
        send_(frame.host, wire::PutDone{.rank = frame.rank, .request = frame.request, .error = {}});
        frames_.pop_front();
        sent_bytes_ = 0;
    }
}

}  // namespace hvd::launch
