// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/input_pump.hpp"

#include "collectives/base/error.hpp"
#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

UniqueFd duplicate_stdin() {
    UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd) {
        throw Exception(system_error("standard input", errno));
    }
    return fd;
}

}  // namespace

InputPump::InputPump(IoThread& io, Agents& agents, std::vector<std::size_t> hosts)
    : agents_(agents), watch_(io, duplicate_stdin()) {
    for (const auto host : hosts) {
        under_way_[host] = 0;
    }
    listen();
}

void InputPump::taken(std::size_t host, std::uint64_t bytes) {
    if (const auto found = under_way_.find(host); found != under_way_.end()) {
        found->second -= std::min(found->second, bytes);
    }
    if (std::exchange(is_paused_, false)) {
        listen_if_wanted();
    }
}

void InputPump::listen() {
    watch_.wait([this] { read(); });
}

void InputPump::read() {
    wire::Input input;
    input.bytes.resize(kReadBytes);
    const auto size = ::read(watch_.fd(), input.bytes.data(), input.bytes.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
        listen();
        return;
    }
    const bool is_end = size <= 0;
    input.bytes.resize(is_end ? 0 : static_cast<std::size_t>(size));
    for (auto& [host, bytes] : under_way_) {
        agents_.send(host, input);
        bytes += input.bytes.size();
    }
    if (!is_end) {
        listen_if_wanted();
    }
}

void InputPump::listen_if_wanted() {
    is_paused_ = std::ranges::any_of(
        under_way_, [](const auto& host) { return host.second >= wire::kInputWindow; });
    if (!is_paused_) {
        listen();
    }
}

}  // namespace hvd::launch
