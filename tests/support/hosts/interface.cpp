// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hosts/interface.hpp"

#include "collectives/base/unique_fd.hpp"
#include "tests/support/hosts/calls.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::test {
namespace {

UniqueFd any_socket(int family) {
    return UniqueFd(check(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
}

ifreq request_for(const std::string& interface) {
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

void add_address4(const std::string& interface, const std::string& address, unsigned bits) {
    const UniqueFd socket = any_socket(AF_INET);
    ifreq request = request_for(interface);
    sockaddr_in value{};
    value.sin_family = AF_INET;
    check(::inet_pton(AF_INET, address.c_str(), &value.sin_addr) - 1, address);
    std::memcpy(&request.ifr_addr, &value, sizeof value);
    check(::ioctl(socket.get(), SIOCSIFADDR, &request), address);
    value.sin_addr.s_addr = htonl(~std::uint32_t{0} << (32 - bits));
    std::memcpy(&request.ifr_netmask, &value, sizeof value);
    check(::ioctl(socket.get(), SIOCSIFNETMASK, &request), "mask of " + address);
}

void add_address6(const std::string& interface, const std::string& address, unsigned bits) {
    // Nobody else has the address: looking for duplicates would take a second.
    std::ofstream("/proc/sys/net/ipv6/conf/" + interface + "/accept_dad") << "0";
    const UniqueFd socket = any_socket(AF_INET6);
    ifreq request = request_for(interface);
    check(::ioctl(socket.get(), SIOCGIFINDEX, &request), interface);
    in6_ifreq value{};
    check(::inet_pton(AF_INET6, address.c_str(), &value.ifr6_addr) - 1, address);
    value.ifr6_prefixlen = bits;
    value.ifr6_ifindex = request.ifr_ifindex;
    check(::ioctl(socket.get(), SIOCSIFADDR, &value), address);
}

bool is_listening(unsigned port) {
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream stream(table);
        for (std::string line; std::getline(stream, line);) {
            const auto colon = line.find(':', line.find(':') + 1);
            unsigned local = 0;
            unsigned state = 0;
            // " 0: 00000000:0016 00000000:0000 0A": 0A is listening
            if (colon != std::string::npos &&
                std::sscanf(&line[colon], ":%x %*[^ ] %x", &local, &state) == 2 && local == port &&
                state == 10) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

void bring_up(const std::string& interface) {
    const UniqueFd socket = any_socket(AF_INET);
    ifreq request = request_for(interface);
    check(::ioctl(socket.get(), SIOCGIFFLAGS, &request), interface);
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    check(::ioctl(socket.get(), SIOCSIFFLAGS, &request), interface);
}

void add_address(const std::string& interface, const std::string& address) {
    const auto slash = address.find('/');
    const auto bits = static_cast<unsigned>(std::stoul(address.substr(slash + 1)));
    const bool is_6 = address.find(':') != std::string::npos;
    (is_6 ? add_address6 : add_address4)(interface, address.substr(0, slash), bits);
    bring_up(interface);
}

void wait_until_listening(const std::string& port) {
    const auto number = static_cast<unsigned>(std::stoul(port));
    for (int milliseconds = 0; milliseconds < 20000; ++milliseconds) {
        if (is_listening(number)) {
            return;
        }
        ::usleep(1000);
    }
    throw std::runtime_error("nobody listens on port " + port + " after 20 s");
}

}  // namespace hvd::test
