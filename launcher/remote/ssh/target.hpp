// SPDX-License-Identifier: Apache-2.0
//
// From a host and the settings about it to what a connection needs.
#pragma once

#include "collectives/base/env.hpp"
#include "launcher/model/host.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/remote/ssh/known_hosts.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hvd::launch::ssh {

/// The local user; ssh takes it from the password database.
struct LocalUser {
    std::string name;
    std::string home;
};

/// From the user database (NSS), else from `environment`. Either may be empty.
[[nodiscard]] LocalUser local_user(const Environment& environment);

struct SshTarget {
    std::string words_for_ssh{};  // "-p 2222 node1": what leads ssh to the same place
    std::string name{};           // to be resolved: a name or an address
    int port = 22;
    std::string user{};
    std::optional<int> address_family{};        // AF_INET, AF_INET6
    std::optional<std::string> agent_socket{};  // of ssh-agent
    std::vector<std::string> key_files{};       // in order; any part of which exists
    bool identities_only = false;               // of the agent, only keys that the files name
    std::vector<std::string> other_methods{};   // that ssh would try too: "gssapi-with-mic"
    std::vector<KnownKey> known_keys{};
    std::vector<KnownKey> keys_without_port{};  // where none is known for its port
    std::string known_hosts_name{};
    std::string known_hosts_file{};  // where a key is to be added
    std::string host_key_algorithms{};
    bool accepts_changed_key = false;  // as ssh then does, with a warning
    std::chrono::milliseconds connect_timeout{};
    std::chrono::milliseconds answer_timeout{};  // to sign in, where somebody may have to act
};

/// Why the system's ssh is to be used.
struct UseSystemSsh {
    std::string reason;
};

/// Reads the settings of ssh and the known_hosts files.
[[nodiscard]] std::variant<SshTarget, UseSystemSsh> make_target(const Host& host,
                                                                const SshTask& task,
                                                                const LocalUser& me,
                                                                const Environment& environment,
                                                                KnownHostsFiles& known_hosts);

}  // namespace hvd::launch::ssh
