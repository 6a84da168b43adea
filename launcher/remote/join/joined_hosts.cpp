// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/joined_hosts.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kMostNames = 8;

bool is_digit(char character) {
    return character >= '0' && character <= '9';
}

/// It is printed, and becomes part of what ranks see.
bool is_name(std::string_view name) {
    const auto is_allowed = [](char character) {
        return std::isalnum(static_cast<unsigned char>(character)) != 0 ||
               std::string_view("-_.:[]").find(character) != std::string_view::npos;
    };
    return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_allowed);
}

Error refuse(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

/// The digits at the begin, without leading zeros.
std::string_view take_number(std::string_view& text) {
    const auto end = std::min(text.size(), text.find_first_not_of("0123456789"));
    auto digits = text.substr(0, end);
    text.remove_prefix(end);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    return digits;
}

}  // namespace

bool is_same_host(std::string_view a, std::string_view b) {
    const bool is_one_short =
        (a.find('.') == std::string_view::npos) != (b.find('.') == std::string_view::npos);
    if (is_one_short) {
        a = a.substr(0, a.find('.'));
        b = b.substr(0, b.find('.'));
    }
    return equals_ignoring_case(a, b);
}

bool comes_before(std::string_view a, std::string_view b) {
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const auto first = take_number(a);
            const auto second = take_number(b);
            if (first != second) {
                return std::pair(first.size(), first) < std::pair(second.size(), second);
            }
            continue;
        }
        if (a.front() != b.front()) {
            return a.front() < b.front();
        }
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
    return a.size() < b.size();
}

Result<std::string> JoinedHosts::known_name(const std::string& name) const {
    if (!is_name(name)) {
        return refuse("its name must be of letters, digits and - _ . ; give one with --join-name");
    }
    if (expected_.hosts.empty()) {
        return name;
    }
    const auto is_it = [&](const Host& host) { return host.name == name; };
    auto host = std::ranges::find_if(expected_.hosts, is_it);
    if (host == expected_.hosts.end()) {
        const auto is_like_it = [&](const Host& other) { return is_same_host(other.name, name); };
        host = std::ranges::find_if(expected_.hosts, is_like_it);
    }
    if (host == expected_.hosts.end()) {
        return refuse("no host " + name +
                      " is expected by -H; correct -H, or give the right name with --join-name");
    }
    return host->name;
}

const JoinedHosts::Member* JoinedHosts::find(std::string_view name) const {
    const auto member = std::ranges::find(
        members_, name, [](const Member& one) -> std::string_view { return one.joiner.name; });
    return member == members_.end() ? nullptr : &*member;
}

Result<std::string> JoinedHosts::admit(const Joiner& joiner) {
    HVD_TRY(auto name, known_name(joiner.name));
    if (const auto* twin = find(name)) {
        return refuse(name + " has joined already from " + twin->joiner.address +
                      ", and does so again from " + joiner.address +
                      "; give one of them another name with --join-name");
    }
    if (joiner.slots < 0 || joiner.slots > kMaxSlots) {
        return refuse("--join-slots must be from 1 to " + std::to_string(kMaxSlots));
    }
    if (is_complete()) {
        return refuse("all hosts of the job have joined");
    }
    members_.push_back({.joiner = joiner, .counted = {}});
    members_.back().joiner.name = name;
    return name;
}

void JoinedHosts::count(std::string_view name, int slots) {
    for (auto& member : members_) {
        if (member.joiner.name == name) {
            member.counted = member.joiner.slots > 0 ? member.joiner.slots : slots;
        }
    }
}

void JoinedHosts::leave(std::string_view name) {
    std::erase_if(members_, [&](const Member& member) { return member.joiner.name == name; });
}

/// How many hosts are to join; 0 where the slots decide.
std::size_t JoinedHosts::wanted() const noexcept {
    return expected_.hosts.empty() ? static_cast<std::size_t>(expected_.count.value_or(0))
                                   : expected_.hosts.size();
}

int JoinedHosts::slots() const {
    int sum = 0;
    for (const auto& member : members_) {
        sum += member.counted.value_or(0);
    }
    return sum;
}

bool JoinedHosts::is_complete() const {
    if (wanted() > 0) {
        return members_.size() >= wanted();
    }
    return !members_.empty() && slots() >= expected_.processes.value_or(1);
}

std::string JoinedHosts::progress() const {
    if (wanted() == 0) {
        int slots = 0;  // of those that have said how many as well, before they are counted
        for (const auto& member : members_) {
            slots += member.counted.value_or(member.joiner.slots);
        }
        return std::to_string(members_.size()) + (members_.size() == 1 ? " host" : " hosts") +
               " with " + std::to_string(slots) + " slots have joined, for " +
               std::to_string(expected_.processes.value_or(1)) + " ranks";
    }
    auto text =
        std::to_string(members_.size()) + " of " + std::to_string(wanted()) + " hosts have joined";
    std::vector<std::string> missing;
    for (const auto& host : expected_.hosts) {
        if (find(host.name) == nullptr) {
            missing.push_back(host.name);
        }
    }
    return missing.empty() ? text : text + "; missing: " + join_first(missing, kMostNames);
}

std::vector<Host> JoinedHosts::hosts() const {
    if (!expected_.hosts.empty()) {
        auto named = expected_.hosts;
        for (auto& host : named) {
            const auto* member = find(host.name);
            if (!host.slots && member != nullptr && member->joiner.slots > 0) {
                host.slots = member->joiner.slots;
            }
        }
        return named;
    }
    auto members = members_;
    std::ranges::sort(members, [](const Member& a, const Member& b) {
        return comes_before(a.joiner.name, b.joiner.name);
    });
    const auto is_silent = [](const Member& member) { return member.joiner.slots == 0; };
    int left = expected_.count ? expected_.processes.value_or(0) : 0;
    auto sharing = static_cast<int>(std::ranges::count_if(members, is_silent));
    for (const auto& member : members) {
        left -= member.joiner.slots;
    }
    std::vector<Host> hosts;
    for (const auto& member : members) {
        Host host{.name = member.joiner.name};
        if (!is_silent(member)) {
            host.slots = member.joiner.slots;
        } else if (left > 0) {
            host.slots = (left + sharing - 1) / sharing;
            left -= *host.slots;
            --sharing;
        }
        hosts.push_back(std::move(host));
    }
    return hosts;
}

}  // namespace hvd::launch
