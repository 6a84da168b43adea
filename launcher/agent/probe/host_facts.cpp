// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/host_facts.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/processes/affinity.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr int kFirstPort = 10'000;  // below it live the services that people know by number
constexpr int kLastPort = 65'535;
constexpr std::pair<int, int> kUsualEphemeral{32'768, 60'999};
constexpr unsigned kPortTries = 64;
constexpr std::size_t kMaxText = 4096;

/// Whether nobody uses the port at any address. Without SO_REUSEADDR a wildcard conflicts with
/// every address, and the one of IPv6 with those of IPv4 too.
bool is_port_free(int port) {
    const UniqueFd socket6(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket6) {
        const int off = 0;
        (void)::setsockopt(socket6.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(static_cast<std::uint16_t>(port));
        if (::bind(socket6.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0) {
            return true;
        }
        if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) {
            return false;
        }
    }
    const UniqueFd socket4(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::bind(socket4.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// Whether somebody could listen at the port of every address. What is left of connections that
/// are over does not count, as it does not for who sets SO_REUSEADDR.
bool can_listen(int port) {
    constexpr int kOn = 1;
    constexpr int kOff = 0;
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    const UniqueFd socket6(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket6) {
        (void)::setsockopt(socket6.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
        (void)::setsockopt(socket6.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof kOff);
        if (::bind(socket6.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six) == 0) {
            return ::listen(socket6.get(), 1) == 0;
        }
        if (errno != EADDRNOTAVAIL) {
            return false;
        }
    }
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = six.sin6_port;
    const UniqueFd socket4(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    (void)::setsockopt(socket4.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
    return ::bind(socket4.get(), reinterpret_cast<const sockaddr*>(&four), sizeof four) == 0 &&
           ::listen(socket4.get(), 1) == 0;
}

int find_free_port() {
    const auto text = read_file("/proc/sys/net/ipv4/ip_local_port_range", kMaxText);
    const auto parsed = text ? parse_port_range(*text) : std::nullopt;
    const auto ephemeral = parsed.value_or(kUsualEphemeral);
    // Jobs that start at the same time begin at different places.
    constexpr unsigned kStride = 61;
    const auto start = static_cast<unsigned>(::getpid()) * kStride;
    for (unsigned number = 0; number < kPortTries; ++number) {
        const int port = pick_port(ephemeral, start + number);
        if (is_port_free(port)) {
            return port;
        }
    }
    return 0;
}

}  // namespace

std::optional<std::pair<int, int>> parse_port_range(std::string_view text) {
    const auto line = trim(text);
    const auto gap = line.find_first_of(" \t");
    if (gap == std::string_view::npos) {
        return std::nullopt;
    }
    const auto first = parse_number<int>(line.substr(0, gap));
    const auto last = parse_number<int>(trim(line.substr(gap)));
    if (!first || !last || *first < 1 || *last > kLastPort || *first > *last) {
        return std::nullopt;
    }
    return std::pair(*first, *last);
}

int pick_port(std::pair<int, int> ephemeral, unsigned number) {
    const int below = std::max(0, std::min(ephemeral.first, kLastPort + 1) - kFirstPort);
    const int above_from = std::max(ephemeral.second + 1, kFirstPort);
    const int above = std::max(0, kLastPort + 1 - above_from);
    const int count = below + above;
    if (count == 0) {
        // Every port is ephemeral: then any of them, tested, has to do.
        return kFirstPort + static_cast<int>(number % (kLastPort + 1 - kFirstPort));
    }
    const int index = static_cast<int>(number % static_cast<unsigned>(count));
    return index < below ? kFirstPort + index : above_from + (index - below);
}

std::optional<int> find_port(int first, int last) {
    for (int port = std::min(last, kLastPort); port >= std::max(first, 1); --port) {
        if (can_listen(port)) {
            return port;
        }
    }
    return std::nullopt;
}

HostFacts collect_facts() {
    HostFacts facts;
    utsname names{};
    if (::uname(&names) == 0) {
        facts.hostname = names.nodename;
        facts.machine = names.machine;
    }
    facts.cpus = allowed_cpus();
    struct sysinfo memory {};
    if (::sysinfo(&memory) == 0) {
        facts.memory_bytes = std::uint64_t{memory.totalram} * memory.mem_unit;
    }
    facts.gpu_mask = read_env("CUDA_VISIBLE_DEVICES");
    facts.free_port = find_free_port();
    return facts;
}

}  // namespace hvd::launch::agent
