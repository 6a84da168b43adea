// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/input_pump.hpp"

#include "collectives/base/error.hpp"
#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

/// An epoll descriptor that is readable when standard input is: waiting for standard input itself
/// would make it non-blocking, for everybody who shares it. None for a regular file, which epoll
/// refuses and which never blocks.
UniqueFd watch_stdin() {
    UniqueFd watch(::epoll_create1(EPOLL_CLOEXEC));
    if (!watch) {
        throw Exception(system_error("epoll_create1", errno));
    }
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(watch.get(), EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0) {
        watch.reset();
    }
    return watch;
}

}  // namespace

InputPump::InputPump(IoThread& io, AgentFleet& fleet, const std::vector<std::size_t>& hosts)
    : io_(io), fleet_(fleet) {
    if (auto watch = watch_stdin()) {
        watch_.emplace(io, std::move(watch));
    }
    for (const auto host : hosts) {
        readers_.push_back({.host = host});
    }
    listen_if_there_is_room();
}

void InputPump::taken(std::size_t host, std::uint64_t bytes) {
    for (auto& reader : readers_) {
        if (reader.host == host) {
            reader.under_way_bytes -= std::min(bytes, reader.under_way_bytes);
        }
    }
    listen_if_there_is_room();
}

void InputPump::listen_if_there_is_room() {
    const bool has_room = std::ranges::all_of(readers_, [](const Reader& reader) {
        return reader.under_way_bytes + kReadBytes <= wire::kInputWindow;
    });
    if (has_room && !is_at_end_ && !std::exchange(is_listening_, true)) {
        wait();
    }
}

void InputPump::wait() {
    if (watch_) {
        watch_->wait([this] { read(); });
    } else {
        io_.post([alive = std::weak_ptr(alive_), this] {
            if (!alive.expired()) {
                read();
            }
        });
    }
}

void InputPump::read() {
    is_listening_ = false;
    wire::Input input;
    input.bytes.resize(kReadBytes);
    const auto size = ::read(STDIN_FILENO, input.bytes.data(), input.bytes.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
        listen_if_there_is_room();
        return;
    }
    // Input that cannot be read counts as ended; no bytes mean the end.
    input.bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    is_at_end_ = input.bytes.empty();
    for (auto& reader : readers_) {
        fleet_.send(reader.host, input);
        reader.under_way_bytes += input.bytes.size();
    }
    listen_if_there_is_room();
}

}  // namespace hvd::launch
