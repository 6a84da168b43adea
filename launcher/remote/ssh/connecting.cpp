// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/connecting.hpp"

#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvd::launch::ssh {

Connecting::Connecting(IoThread& io,
                       std::vector<Address> addresses,
                       std::function<void(Result<Connected>)> done)
    : io_(io), addresses_(std::move(addresses)), done_(std::move(done)), step_(io), soon_(io) {
    attempts_.reserve(addresses_.size());  // they stay where they are
    step_.set(Deadline::in({}), [this] { begin_next(); });
}

void Connecting::begin_next() {
    if (is_over_ || attempts_.size() == addresses_.size()) {
        return;
    }
    const auto index = attempts_.size();
    attempts_.emplace_back();
    if (auto reason = begin(index); !reason.empty()) {
        failed(index, std::move(reason));
    } else if (attempts_.size() < addresses_.size()) {
        step_.set(Deadline::in(kStep), [this] { begin_next(); });
    }
}

/// Gives why it cannot even begin.
std::string Connecting::begin(std::size_t index) {
    const auto& address = addresses_[index];
    UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
        return system_error("socket", errno).message;
    }
    const int on = 1;
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const int result =
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    if (result != 0 && errno != EINPROGRESS) {
        return system_error(address.text, errno).message;
    }
    attempts_[index].socket = std::make_unique<ReadyWatch>(io_, std::move(fd));
    attempts_[index].socket->wait_writable([this, index] { look(index); });
    return {};
}

void Connecting::look(std::size_t index) {
    if (is_over_) {
        return;
    }
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(attempts_[index].socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        failed(index, system_error(addresses_[index].text, error).message);
        return;
    }
    finish(Connected{.socket = std::move(attempts_[index].socket), .address = index});
}

/// The next one need not wait for its turn.
void Connecting::failed(std::size_t index, std::string reason) {
    attempts_[index].reason = std::move(reason);
    if (attempts_.size() < addresses_.size()) {
        step_.set(Deadline::in({}), [this] { begin_next(); });
        return;
    }
    const bool is_any_left = std::ranges::any_of(
        attempts_, [](const Attempt& attempt) { return attempt.reason.empty(); });
    if (is_any_left) {
        return;
    }
    std::vector<std::string> reasons;
    std::ranges::transform(attempts_, std::back_inserter(reasons), &Attempt::reason);
    finish(Error{Errc::unavailable, join(reasons, "; ")});
}

/// From the loop: a watch must survive its own handler.
void Connecting::finish(Result<Connected> result) {
    is_over_ = true;
    step_.cancel();
    soon_.set(Deadline::in({}),
              [this, outcome = std::make_shared<Result<Connected>>(std::move(result))] {
                  attempts_.clear();
                  done_(std::move(*outcome));
              });
}

}  // namespace hvd::launch::ssh
