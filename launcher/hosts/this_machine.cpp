// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/this_machine.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/host_spec.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxHostsFile = std::size_t{4} << 20;

std::string write_address(int family, const void* address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

/// The address in its one canonical spelling, without brackets and zone; nothing for a name.
std::optional<std::string> canonical_address(std::string_view text) {
    if (text.starts_with('[') && text.ends_with(']')) {
        text = text.substr(1, text.size() - 2);
    }
    const std::string bare(text.substr(0, text.find('%')));
    in_addr four{};
    if (inet_pton(AF_INET, bare.c_str(), &four) == 1) {
        return write_address(AF_INET, &four);
    }
    in6_addr six{};
    if (inet_pton(AF_INET6, bare.c_str(), &six) == 1) {
        return write_address(AF_INET6, &six);
    }
    return std::nullopt;
}

bool is_own_address(const std::string& address, const std::vector<std::string>& addresses) {
    return address.starts_with("127.") || address == "::1" ||
           std::ranges::find(addresses, address) != addresses.end();
}

std::vector<std::string> interface_addresses() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) {
        return {};
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
    std::vector<std::string> addresses;
    for (const auto* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr) {
            continue;
        }
        if (entry->ifa_addr->sa_family == AF_INET) {
            const auto* four = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
            addresses.push_back(write_address(AF_INET, &four->sin_addr));
        } else if (entry->ifa_addr->sa_family == AF_INET6) {
            const auto* six = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
            addresses.push_back(write_address(AF_INET6, &six->sin6_addr));
        }
    }
    return addresses;
}

/// The words of a line, without its comment.
std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view kBlank = " \t\r";
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    while (!(line = trim(line)).empty()) {
        words.push_back(line.substr(0, line.find_first_of(kBlank)));
        line.remove_prefix(words.back().size());
    }
    return words;
}

}  // namespace

ThisMachine this_machine() {
    ThisMachine machine;
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) == 0) {
        machine.hostname = name.data();
    }
    machine.addresses = interface_addresses();
    if (const auto text = read_file("/etc/hosts", kMaxHostsFile)) {
        machine.aliases = aliases_in(*text, machine.addresses);
    }
    return machine;
}

std::vector<std::string> aliases_in(std::string_view hosts_text,
                                    const std::vector<std::string>& addresses) {
    std::vector<std::string> aliases;
    for (const auto line : split(hosts_text, '\n')) {
        const auto words = words_of(line);
        const auto address = words.empty() ? std::nullopt : canonical_address(words.front());
        if (address && is_own_address(*address, addresses)) {
            aliases.insert(aliases.end(), words.begin() + 1, words.end());
        }
    }
    return aliases;
}

bool is_this_machine(std::string_view name, const ThisMachine& machine) {
    if (const auto address = canonical_address(name)) {
        return is_own_address(*address, machine.addresses);
    }
    const auto wanted = to_lower(name);
    const auto own = to_lower(machine.hostname);
    const auto is_wanted = [&](const std::string& alias) { return to_lower(alias) == wanted; };
    return wanted == "localhost" || wanted == own || wanted == own.substr(0, own.find('.')) ||
           std::ranges::any_of(machine.aliases, is_wanted);
}

Result<std::vector<PlacedHost>> place_hosts(const std::vector<Host>& hosts,
                                            const ThisMachine& machine) {
    if (hosts.empty()) {
        return std::vector{PlacedHost{.host = {.name = "localhost"}, .is_here = true}};
    }
    std::vector<PlacedHost> placed;
    std::optional<std::size_t> here;
    for (const auto& host : hosts) {
        if (host.user || host.port || !is_this_machine(host.name, machine)) {
            placed.push_back({.host = host});
            continue;
        }
        if (!here) {
            here = placed.size();
            placed.push_back({.host = host, .is_here = true});
            continue;
        }
        HVD_TRY_STATUS(add_slots(placed[*here].host, host));
    }
    return placed;
}

}  // namespace hvd::launch
