// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/machine_mark.hpp"

#include "collectives/rendezvous/unix_socket.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <string_view>
#include <utility>

#include <sys/random.h>
#include <sys/socket.h>

namespace hvd::launch::agent {
namespace {

/// For room in a queue that only a handful of agents can fill.
constexpr auto kPatience = std::chrono::milliseconds(200);

std::string random_name() {
    std::array<std::uint8_t, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return {};
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string name = "horovodrun-";
    for (const unsigned byte : bytes) {
        name += kDigits[byte >> 4U];
        name += kDigits[byte & 15U];
    }
    return name;
}

bool is_here(const std::string& mark) {
    const auto connected = coll::connect_abstract(mark, SOCK_STREAM, Deadline::in(kPatience));
    return connected && *connected;
}

}  // namespace

MachineMark::MachineMark() {
    auto name = random_name();
    if (name.empty()) {
        return;
    }
    auto listening = coll::listen_abstract(name, SOCK_STREAM);
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
