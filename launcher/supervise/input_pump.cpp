// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/input_pump.hpp"

#include "collectives/base/error.hpp"
#include "launcher/net/io_thread.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxQueuedBytes = std::size_t{1} << 20;

UniqueFd duplicate_stdin() {
    UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd) {
        throw Exception(system_error("standard input", errno));
    }
    return fd;
}

}  // namespace

InputPump::InputPump(IoThread& io, Agents& agents, std::vector<std::size_t> hosts)
    : agents_(agents), hosts_(std::move(hosts)), watch_(io, duplicate_stdin()) {
    listen();
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
    for (const auto host : hosts_) {
        agents_.send(host, input);
    }
    if (!is_end) {
        listen_when_sent(0);
    }
}

void InputPump::listen_when_sent(std::size_t position) {
    while (position < hosts_.size() && agents_.queued_bytes(hosts_[position]) < kMaxQueuedBytes) {
        ++position;
    }
    if (position == hosts_.size()) {
        listen();
        return;
    }
    agents_.when_sent(hosts_[position], [this, position] { listen_when_sent(position); });
}

}  // namespace hvd::launch
