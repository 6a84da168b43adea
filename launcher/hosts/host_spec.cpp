// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_spec.hpp"

#include "collectives/base/text.hpp"
#include "launcher/hosts/host_ranges.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace hvd::launch {
namespace {

Error refuse(std::string_view item, std::string_view why) {
    return {Errc::invalid_argument,
            "host '" + escape_controls(item) + "': " + escape_controls(why)};
}

bool is_name_character(char c) noexcept {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

bool is_address_character(char c) noexcept {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
}

/// The text between the brackets: an address, perhaps with the interface it belongs to.
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

/// The length of the name at the start of `text`, brackets included. Errors name `item`.
Result<std::size_t> name_length(std::string_view item, std::string_view text) {
    if (text.starts_with('[')) {
        const auto close = text.find(']');
        if (close == std::string_view::npos) {
            return refuse(item, "the closing ']' is missing");
        }
        if (!looks_like_ipv6(text.substr(1, close - 1))) {
            return refuse(item, "there is no IPv6 address between the brackets");
        }
        return close + 1;
    }
    if (std::ranges::count(text, ':') > 1) {
        return refuse(item, "an IPv6 address needs brackets, such as [fe80::1]:4");
    }
    return std::min(text.find_first_of(":/"), text.size());
}

Status check_name(std::string_view item, std::string_view name) {
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
    return ok();
}

/// "n[1-2]" → n1, n2, each checked.
Result<std::vector<std::string>> read_names(std::string_view item, std::string_view name) {
    if (name.starts_with('[')) {
        return std::vector{std::string(name)};
    }
    auto names = expand_ranges(name);
    if (!names) {
        return refuse(item, names.error().message);
    }
    for (const auto& each : *names) {
        HVD_TRY_STATUS(check_name(item, each));
    }
    return names;
}

/// Takes "me@" off the front.
Result<std::optional<std::string>> take_user(std::string_view item, std::string_view& rest) {
    const auto at = rest.find('@');
    if (at == std::string_view::npos) {
        return std::optional<std::string>{};
    }
    const auto user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    // A user that begins with '-' would be an option to ssh.
    const bool is_good = !user.empty() && user.front() != '-' &&
                         user.find_first_of(" \t:/'\"@") == std::string_view::npos;
    if (!is_good) {
        return refuse(item, "'" + std::string(user) + "' before '@' is no user name");
    }
    return std::optional(std::string(user));
}

Result<int> parse_port(std::string_view item, std::string_view text) {
    constexpr int kMaxPort = 65'535;
    const auto port = parse_number<int>(text);
    if (!port || *port < 1 || *port > kMaxPort) {
        return refuse(item, "the port is '" + std::string(text) + "', but it must be from 1 to " +
                                std::to_string(kMaxPort));
    }
    return *port;
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

/// Reads the text after the name: ":SLOTS".
Result<std::optional<int>> read_slots(std::string_view item, std::string_view rest) {
    if (rest.empty()) {
        return std::optional<int>{};
    }
    if (rest.front() != ':') {
        return refuse(item, "after the name only ':SLOTS' may follow");
    }
    HVD_TRY(const int slots, parse_slots(item, rest.substr(1)));
    return std::optional(slots);
}

constexpr std::string_view kScheme = "ssh://";

/// Reads the text after the name in ssh(1)'s own form: ":PORT", then "/SLOTS".
Status read_uri_tail(std::string_view item, std::string_view rest, Host& host) {
    const auto slash = rest.find('/');
    const auto port = rest.substr(0, slash);
    if (!port.empty()) {
        if (port.front() != ':') {
            return refuse(item, "after the name only ':PORT' and '/SLOTS' may follow");
        }
        HVD_TRY(host.port, parse_port(item, port.substr(1)));
    }
    if (slash != std::string_view::npos) {
        HVD_TRY(host.slots, parse_slots(item, rest.substr(slash + 1)));
    }
    return ok();
}

/// Equal for what is one host.
std::string place_of(const Host& host) {
    return to_lower(host.name) + ":" + std::to_string(host.port.value_or(0));
}

}  // namespace

Result<std::vector<Host>> parse_item(std::string_view item) {
    const bool is_uri = item.starts_with(kScheme);
    auto rest = item.substr(is_uri ? kScheme.size() : 0);
    Host host;
    HVD_TRY(host.user, take_user(item, rest));
    HVD_TRY(const std::size_t length, name_length(item, rest));
    HVD_TRY(auto names, read_names(item, rest.substr(0, length)));
    rest.remove_prefix(length);
    if (is_uri) {
        HVD_TRY_STATUS(read_uri_tail(item, rest, host));
    } else {
        HVD_TRY(host.slots, read_slots(item, rest));
    }
    std::vector<Host> hosts;
    for (auto& name : names) {
        host.name = std::move(name);
        hosts.push_back(host);
    }
    return hosts;
}

Result<std::vector<std::string>> parse_excluded(std::string_view item) {
    const auto name = trim(item.substr(1));
    HVD_TRY(const std::size_t length, name_length(item, name));
    if (length != name.size()) {
        return refuse(item, "behind '^' stands a name alone");
    }
    return read_names(item, name);
}

Status add_slots(Host& known, const Host& again) {
    if (known.user != again.user) {
        return refuse(known.name, "it is written with two users, " + known.user.value_or("none") +
                                      " and " + again.user.value_or("none"));
    }
    if (known.slots.has_value() != again.slots.has_value()) {
        return refuse(known.name, "it is written once with and once without a number of slots");
    }
    if (again.slots) {
        if (*known.slots > kMaxSlots - *again.slots) {
            return refuse(known.name,
                          "its slots together are more than " + std::to_string(kMaxSlots));
        }
        *known.slots += *again.slots;
    }
    return ok();
}

Status UniqueHosts::add(Host host) {
    const auto [place, is_new] = places_.emplace(place_of(host), hosts_.size());
    if (!is_new) {
        return add_slots(hosts_[place->second], host);
    }
    hosts_.push_back(std::move(host));
    return ok();
}

Status UniqueHosts::add(std::vector<Host> hosts) {
    for (auto& host : hosts) {
        HVD_TRY_STATUS(add(std::move(host)));
    }
    return ok();
}

Status exclude_hosts(std::vector<Host>& hosts, const std::vector<std::string>& excluded) {
    for (const auto& name : excluded) {
        const auto is_named = [&](const Host& host) {
            return equals_ignoring_case(host.name, name);
        };
        if (std::erase_if(hosts, is_named) == 0) {
            return refuse("^" + name, "the list has no such host to leave out");
        }
    }
    if (hosts.empty() && !excluded.empty()) {
        return refuse("^" + excluded.back(), "no host is left");
    }
    return ok();
}

Result<HostList> parse_host_list(std::string_view text) {
    HostList list;
    UniqueHosts hosts;
    for (const auto part : split_host_list(text)) {
        const auto item = trim(part);
        if (item.empty()) {
            return refuse(
                item, "the name is missing in '" + std::string(text) + "'; write HOST[:SLOTS],...");
        }
        if (item.front() == '^') {
            HVD_TRY(const auto names, parse_excluded(item));
            list.excluded.insert(list.excluded.end(), names.begin(), names.end());
            continue;
        }
        HVD_TRY(auto named, parse_item(item));
        HVD_TRY_STATUS(hosts.add(std::move(named)));
    }
    list.hosts = hosts.take();
    return list;
}

Result<std::vector<Host>> parse_hosts(std::string_view text) {
    HVD_TRY(auto list, parse_host_list(text));
    HVD_TRY_STATUS(exclude_hosts(list.hosts, list.excluded));
    return std::move(list.hosts);
}

bool is_ssh(std::string_view program) {
    return program.substr(program.rfind('/') + 1) == "ssh";
}

Status merge_machines(std::vector<Host>& hosts, const std::vector<std::size_t>& machines) {
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        auto& first = hosts[machines[index]];
        auto& host = hosts[index];
        if (machines[index] == index) {
            continue;
        }
        if (!first.slots || !host.slots) {
            return Error{Errc::invalid_argument,
                         first.name + " and " + host.name +
                             " are one machine; write it once, or each with its number of slots"};
        }
        if (*first.slots > kMaxSlots - *host.slots) {
            return refuse(first.name, "its slots together with those of " + host.name +
                                          ", the same machine, are more than " +
                                          std::to_string(kMaxSlots));
        }
        *first.slots += std::exchange(*host.slots, 0);
    }
    return ok();
}

}  // namespace hvd::launch
