// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/same_host.hpp"

#include "collectives/base/random_id.hpp"
#include "collectives/base/unix_socket.hpp"

#include <iterator>
#include <ranges>
#include <utility>

#include <sys/socket.h>

namespace hvd::launch::agent {
namespace {

/// A queue that is full shows a listener, too.
bool is_here(const std::string& name) {
    const auto connected = connect_abstract(name, SOCK_STREAM | SOCK_NONBLOCK, Deadline::in({}));
    return connected ? static_cast<bool>(*connected) : connected.error().code == Errc::timed_out;
}

}  // namespace

SameHostSocket::SameHostSocket() {
    const auto id = random_id();
    if (!id) {
        return;
    }
    auto name = "horovodrun-" + *id;
    auto listening = listen_abstract(name, SOCK_STREAM);
    if (listening && !listening->is_name_taken) {
        name_ = std::move(name);
        socket_ = std::move(listening->socket);
    }
}

std::vector<std::string> find_same_host(const std::vector<std::string>& names) {
    std::vector<std::string> found;
    std::ranges::copy_if(names, std::back_inserter(found), is_here);
    return found;
}

}  // namespace hvd::launch::agent
