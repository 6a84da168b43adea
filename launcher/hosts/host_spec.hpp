// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hvd::launch {

/// A list as it was written: the hosts in their order, and the names behind a '^'.
struct HostList {
    std::vector<Host> hosts;
    std::vector<std::string> excluded;
};

/// Reads "a:4,me@b,n[01-03,07]:2,[fe80::1]:2,ssh://me@c:2222/4,^n02". Errors name the item: "host
/// 'a:': the number of slots is missing, ...".
[[nodiscard]] Result<HostList> parse_host_list(std::string_view text);

/// The same as the hosts that remain. A host written twice counts once, with its slots summed, at
/// its first position.
[[nodiscard]] Result<std::vector<Host>> parse_hosts(std::string_view text);

/// Reads one item of such a list, without '^'; ranges give several hosts. Errors as above.
[[nodiscard]] Result<std::vector<Host>> parse_item(std::string_view item);

/// The names that an item behind '^' stands for. Errors as above.
[[nodiscard]] Result<std::vector<std::string>> parse_excluded(std::string_view item);

/// Gives `known` the slots of the same host, written once more. Errors: too many slots together, a
/// name that is written once with and once without a number, or with two users.
[[nodiscard]] Status add_slots(Host& known, const Host& again);

/// Hosts in their order; each name (in whatever case) and port stands once.
class UniqueHosts final {
public:
    /// Errors: as of add_slots.
    [[nodiscard]] Status add(Host host);
    [[nodiscard]] Status add(std::vector<Host> hosts);

    [[nodiscard]] std::vector<Host> take() noexcept { return std::move(hosts_); }

private:
    std::vector<Host> hosts_;
    std::unordered_map<std::string, std::size_t> places_;  // of name and port
};

/// Takes hosts out of a list. Errors: a name that is not in it, and an empty rest.
[[nodiscard]] Status exclude_hosts(std::vector<Host>& hosts,
                                   const std::vector<std::string>& excluded);

/// Whether a program is called ssh, and so takes the flags of ssh.
[[nodiscard]] bool is_ssh(std::string_view program);

/// Gives the slots of hosts that turned out to be one machine to the first of them; the others keep
/// none. `machines[i]` is the first host that is the machine of host i. Errors: both names, where
/// one of them has no number of slots that could be added.
[[nodiscard]] Status merge_machines(std::vector<Host>& hosts,
                                    const std::vector<std::size_t>& machines);

}  // namespace hvd::launch
