// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/machine_mark.hpp"

#include "collectives/base/random_id.hpp"
#include "collectives/base/unix_socket.hpp"

#include <chrono>
#include <iterator>
#include <ranges>
#include <utility>

#include <sys/socket.h>

namespace hvd::launch::agent {
namespace {

/// For room in a queue that only a handful of agents can fill.
constexpr auto kPatience = std::chrono::milliseconds(200);

bool is_here(const std::string& mark) {
    const auto connected = connect_abstract(mark, SOCK_STREAM, Deadline::in(kPatience));
    return connected && *connected;
}

}  // namespace

MachineMark::MachineMark() {
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

std::vector<std::string> find_marks(const std::vector<std::string>& marks) {
    std::vector<std::string> found;
    std::ranges::copy_if(marks, std::back_inserter(found), is_here);
    return found;
}

}  // namespace hvd::launch::agent
