// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/output_pump.hpp"

#include "collectives/base/error.hpp"
#include "collectives/base/wall_clock.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/wire/frames.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kDefaultPipeBytes = std::size_t{64} << 10;
constexpr std::size_t kTerminalBytes = std::size_t{128} << 10;  // more than one holds
constexpr int kPipesPerRound = 64;

bool has_bytes(int fd) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0;
}

}  // namespace

OutputPump::OutputPump(EventLoop& loop, ControlStream& control)
    : loop_(loop),
      control_(control),
      ready_(::epoll_create1(EPOLL_CLOEXEC)),
      buffer_(std::make_unique_for_overwrite<std::array<std::byte, kBusyPipeBytes>>()) {
    if (!ready_) {
        throw Exception(system_error("epoll_create", errno));
    }
}

std::optional<OutputPump::Ends> OutputPump::open(int rank) {
    listen();
    auto out = open_pipe(rank, OutputStream::out);
    auto err = out ? open_pipe(rank, OutputStream::err) : UniqueFd();
    if (!err) {
        return std::nullopt;
    }
    return Ends{.out = std::move(out), .err = std::move(err)};
}

UniqueFd OutputPump::open_pipe(int rank, OutputStream stream) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return {};
    }
    UniqueFd write_end(ends[1]);
    auto pipe = std::make_unique<Pipe>();
    pipe->rank = rank;
    pipe->stream = stream;
    pipe->fd.reset(ends[0]);
    return add(std::move(pipe)) ? std::move(write_end) : UniqueFd();
}

bool OutputPump::add_terminal(int rank, UniqueFd user_end) {
    listen();
    auto pipe = std::make_unique<Pipe>();
    pipe->rank = rank;
    pipe->fd = std::move(user_end);
    pipe->is_terminal = true;
    return add(std::move(pipe));
}

bool OutputPump::add(std::unique_ptr<Pipe> pipe) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = pipe.get();
    if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, pipe->fd.get(), &event) != 0) {
        return false;
    }
    pipes_.push_back(std::move(pipe));
    ++open_pipes_;
    return true;
}

void OutputPump::listen() {
    if (!is_listening_ && credit_ > 0) {
        is_listening_ = true;
        loop_.watch(ready_.get(), EPOLLIN, [this](std::uint32_t) { read_ready(); });
    }
}

void OutputPump::read_ready() {
    std::array<epoll_event, kPipesPerRound> events{};
    const int count = ::epoll_wait(ready_.get(), events.data(), kPipesPerRound, 0);
    for (int index = 0; index < count; ++index) {
        auto& pipe = *static_cast<Pipe*>(events.at(static_cast<std::size_t>(index)).data.ptr);
        if (pipe.fd) {
            (void)read(pipe, kBusyPipeBytes);
        }
    }
}

std::size_t OutputPump::read(Pipe& pipe, std::size_t limit, std::uint64_t room) {
    const auto allowed = credit_ + static_cast<std::int64_t>(room);
    if (limit == 0 || allowed <= 0) {
        return 0;
    }
    const auto wanted = std::min({limit, static_cast<std::size_t>(allowed), kBusyPipeBytes});
    const auto count = ::read(pipe.fd.get(), buffer_->data(), wanted);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
        return 0;
    }
    if (count <= 0) {  // of a terminal that nobody has open: EIO
        close(pipe);
        return 0;
    }
    const auto size = static_cast<std::size_t>(count);
    const auto header = wire::encode_output_header(
        {.rank = pipe.rank, .stream = pipe.stream, .time_ns = wall_clock_ns(), .bytes = {}}, size);
    control_.send_output(header, std::span(*buffer_).first(size));
    if (size >= kDefaultPipeBytes && !std::exchange(pipe.is_enlarged, true)) {
        // A rank that fills its pipe; an unprivileged user may be refused, which only costs speed.
        (void)::fcntl(pipe.fd.get(), F_SETPIPE_SZ, kBusyPipeBytes);
    }
    credit_ -= count;
    if (credit_ <= 0 && std::exchange(is_listening_, false)) {
        loop_.forget(ready_.get());
    }
    return size;
}

void OutputPump::close(Pipe& pipe) {
    // A child that has not yet executed its program holds a copy, so closing ours does not take the
    // pipe out of the epoll set: its end would be reported again and again.
    (void)::epoll_ctl(ready_.get(), EPOLL_CTL_DEL, pipe.fd.get(), nullptr);
    pipe.fd.reset();
    --open_pipes_;
}

void OutputPump::drain(Pipe& pipe, std::uint64_t room) {
    // Only the bytes that are there now: other processes may write to the pipe for ever.
    int available = 0;
    if (!pipe.fd || ::ioctl(pipe.fd.get(), FIONREAD, &available) != 0) {
        return;
    }
    // Of a terminal the kernel counts only those that it has already moved to this end.
    auto left = pipe.is_terminal ? kTerminalBytes : static_cast<std::size_t>(available);
    while (left > 0 && pipe.fd) {
        const auto size = read(pipe, left, room);
        if (size == 0) {
            return;
        }
        left -= size;
    }
}

void OutputPump::rank_ended(int rank) {
    for (auto& pipe : pipes_) {
        if (pipe->rank == rank) {
            drain(*pipe, wire::kLastOutputRoom);
        }
    }
}

void OutputPump::grant(std::uint64_t bytes) {
    credit_ += static_cast<std::int64_t>(bytes);
    if (open_pipes_ > 0) {
        listen();
    }
}

void OutputPump::finish() {
    for (auto& pipe : pipes_) {
        drain(*pipe);
        if (pipe->fd && !has_bytes(pipe->fd.get())) {
            close(*pipe);
        }
    }
}

}  // namespace hvd::launch::agent
