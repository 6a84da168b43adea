// SPDX-License-Identifier: Apache-2.0
//
// This host's interfaces, as the kernel lists them.
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/address.hpp"

#include <bit>
#include <cerrno>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

namespace hvd::coll::net {
namespace {

int bits_of_mask(const sockaddr* mask) noexcept {
    if (mask == nullptr) {
        return 0;
    }
    int bits = 0;
    for (const auto byte : to_ip(mask).bytes) {
        bits += std::popcount(byte);
    }
    return bits;
}

std::int32_t speed_of(const std::string& interface) {
    const auto text = read_file("/sys/class/net/" + interface + "/speed", 64);
    const auto speed = text ? parse_number<std::int32_t>(trim(*text)) : std::nullopt;
    return speed && *speed > 0 ? *speed : 0;  // -1 where nothing is plugged in
}

bool is_usable(const ifaddrs& entry) noexcept {
    if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) {
        return false;
    }
    if (entry.ifa_addr->sa_family == AF_INET) {
        return true;
    }
    if (entry.ifa_addr->sa_family != AF_INET6) {
        return false;
    }
    const auto bytes = to_ip(entry.ifa_addr).bytes;
    return !(bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80);
}

}  // namespace

Result<std::vector<HostAddress>> host_addresses() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) {
        auto error = system_error("cannot list this host's network interfaces", errno);
        error.code = Errc::unavailable;
        return error;
    }
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
    std::vector<HostAddress> addresses;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (is_usable(*entry)) {
            const std::string name = entry->ifa_name;
            addresses.push_back({.interface = name,
                                 .ip = to_ip(entry->ifa_addr),
                                 .prefix = bits_of_mask(entry->ifa_netmask),
                                 .speed = speed_of(name)});
        }
    }
    return addresses;
}

std::string network_identity() {
    const auto boot = read_file("/proc/sys/kernel/random/boot_id", 64);
    struct stat name {};
    if (!boot || ::stat("/proc/self/ns/net", &name) != 0) {
        return {};
    }
    return std::string(trim(*boot)) + "/" + std::to_string(name.st_ino);
}

}  // namespace hvd::coll::net
