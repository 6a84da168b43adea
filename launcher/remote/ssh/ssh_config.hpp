// SPDX-License-Identifier: Apache-2.0
//
// What ~/.ssh/config says about a host, as far as our own SSH follows it. Whatever else stands in a
// block that matches the host is an unsupported: then the system's ssh, which knows it, is used.
#pragma once

#include "collectives/base/env.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::ssh {

struct SshConfig {
    std::optional<std::string> hostname;
    std::optional<int> port;
    std::optional<std::string> user;
    std::vector<std::string> identity_files;  // as written
    std::optional<bool> identities_only;
    std::optional<std::string> identity_agent;  // as written
    std::vector<std::string> user_known_hosts;
    std::vector<std::string> global_known_hosts;
    std::optional<std::string> strict_host_key_checking;
    std::optional<std::string> host_key_alias;
    std::optional<int> connect_timeout_s;
    std::optional<std::string> address_family;
    std::optional<std::string> control_path;
    std::optional<std::string> gssapi_authentication;
    std::optional<std::string> hostbased_authentication;
    std::optional<std::string> preferred_authentications;

    /// Why our own SSH will not do: "ProxyJump in /home/a/.ssh/config, line 7".
    std::optional<std::string> unsupported;
};

struct ConfigFile {
    std::string path;
    std::string text;
};

struct ConfigQuery {
    std::string host;                 // as written
    std::optional<std::string> user;  // given by the host's spec: goes before the file's
    std::string local_user;           // for `Match localuser`

    /// The files that an Include names, in order. `from` is the file in which it stands.
    std::function<std::vector<ConfigFile>(const std::string& pattern, const std::string& from)>
        include;
};

/// Adds what a file says; a value that is set stays, as in ssh. To be called for the user's file
/// and then for the system's.
void read_ssh_config(const ConfigFile& file, const ConfigQuery& query, SshConfig& config);

/// Replaces %% %h %p %r %u %n %d, a leading ~ and ${NAME}; nothing, where it has another token or a
/// variable that is not set.
struct ConfigTokens {
    std::string host{};      // %h: where to connect
    std::string original{};  // %n
    std::string port{};      // %p
    std::string user{};      // %r: there
    std::string local{};     // %u: here
    std::string home{};      // %d, ~

    /// For ${NAME}. Null where the keyword takes no variables, which then stand for themselves.
    const Environment* environment = nullptr;
};
[[nodiscard]] std::optional<std::string> expand_tokens(std::string_view text,
                                                       const ConfigTokens& tokens);

}  // namespace hvd::launch::ssh
