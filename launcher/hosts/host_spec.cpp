// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_spec.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace hvd::launch {
namespace {

Error refuse(std::string_view item, std::string_view why) {
    return {Errc::invalid_argument, "host '" + std::string(item) + "': " + std::string(why)};
}

char lower(char c) noexcept {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

bool same_name(std::string_view a, std::string_view b) noexcept {
    return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_name_character(char c) noexcept {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

bool is_address_character(char c) noexcept {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
}

/// What stands between the brackets: an address, perhaps with the interface it belongs to.
bool looks_like_ipv6(std::string_view text) noexcept {
    const auto percent = text.find('%');
    const auto address = text.substr(0, percent);
    if (percent != std::string_view::npos) {
        const auto zone = text.substr(percent + 1);
        if (zone.empty() || !std::ranges::all_of(zone, is_name_character)) {
            return false;
        }
    }
    return std::ranges::count(address, ':') >= 2 &&
           std::ranges::all_of(address, is_address_character);
}

/// The length of the name at the start of `item`, brackets included.
Result<std::size_t> name_length(std::string_view item) {
    if (item.starts_with('[')) {
        const auto close = item.find(']');
        if (close == std::string_view::npos) {
            return refuse(item, "the closing ']' is missing");
        }
        if (!looks_like_ipv6(item.substr(1, close - 1))) {
            return refuse(item, "there is no IPv6 address between the brackets");
        }
        return close + 1;
    }
    if (std::ranges::count(item, ':') > 1) {
        return refuse(item, "an IPv6 address needs brackets, such as [fe80::1]:4");
    }
    const auto name = item.substr(0, item.find(':'));
    if (name.empty()) {
        return refuse(item, "the name is missing; write HOST or HOST:SLOTS");
    }
    const auto bad = std::ranges::find_if(name, [](char c) { return !is_name_character(c); });
    if (bad != name.end()) {
        return refuse(item, "a name has letters, digits, '.', '-' and '_', but no '" +
                                std::string(1, *bad) + "'");
    }
    if (name.front() == '-') {
        return refuse(item, "a name cannot begin with '-'");
    }
    return name.size();
}

Result<int> parse_slots(std::string_view item, std::string_view text) {
    if (text.empty()) {
        return refuse(item, "the number of slots is missing, such as in 'node1:4'");
    }
    const auto slots = parse_number<int>(text);
    if (!slots || *slots < 1 || *slots > kMaxSlots) {
        return refuse(item, "the number of slots is '" + std::string(text) +
                                "', but it must be from 1 to " + std::to_string(kMaxSlots));
    }
    return *slots;
}

}  // namespace

Result<Host> parse_host(std::string_view item) {
    HVD_TRY(const std::size_t length, name_length(item));
    Host host{.name = std::string(item.substr(0, length)), .slots = std::nullopt};
    const auto rest = item.substr(length);
    if (rest.empty()) {
        return host;
    }
    if (rest.front() != ':') {
        return refuse(item, "after ']' only ':SLOTS' may follow");
    }
    HVD_TRY(host.slots, parse_slots(item, rest.substr(1)));
    return host;
}

Status add_host(std::vector<Host>& hosts, Host host) {
    const auto known = std::ranges::find_if(
        hosts, [&](const Host& other) { return same_name(other.name, host.name); });
    if (known == hosts.end()) {
        hosts.push_back(std::move(host));
        return ok();
    }
    if (known->slots.has_value() != host.slots.has_value()) {
        return refuse(host.name, "it is written once with and once without a number of slots");
    }
    if (host.slots) {
        if (*known->slots > kMaxSlots - *host.slots) {
            return refuse(host.name,
                          "its slots together are more than " + std::to_string(kMaxSlots));
        }
        *known->slots += *host.slots;
    }
    return ok();
}

Result<std::vector<Host>> parse_hosts(std::string_view text) {
    std::vector<Host> hosts;
    for (const auto part : split(text, ',')) {
        const auto item = trim(part);
        if (item.empty()) {
            return refuse(
                item, "the name is missing in '" + std::string(text) + "'; write HOST[:SLOTS],...");
        }
        HVD_TRY(auto host, parse_host(item));
        HVD_TRY_STATUS(add_host(hosts, std::move(host)));
    }
    return hosts;
}

}  // namespace hvd::launch
