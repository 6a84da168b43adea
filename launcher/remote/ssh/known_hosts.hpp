// SPDX-License-Identifier: Apache-2.0
//
// Whether a host's key is the one that known_hosts files have for it. libssh2's own check misses
// names of two characters and knows neither patterns nor markers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::ssh {

struct KnownKey {
    enum class Marker { none, revoked, cert_authority };

    Marker marker = Marker::none;
    std::string type{};
    std::string blob{};
    std::string place{};  // "/home/a/.ssh/known_hosts:7"
    friend bool operator==(const KnownKey&, const KnownKey&) = default;
};

/// How known_hosts spells a host: "node1", or "[node1]:2222" where the port is not 22.
[[nodiscard]] std::string known_hosts_name(std::string_view host, int port);

/// The keys of the lines that match the name: plain names in any case, `*` and `?`, `!`, hashed
/// names. Malformed lines are skipped, as ssh does.
[[nodiscard]] std::vector<KnownKey> find_known_keys(std::string_view file_text,
                                                    std::string_view path,
                                                    std::string_view name);

enum class HostKeyVerdict { known, unknown, changed, revoked };

[[nodiscard]] HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys,
                                            std::string_view blob);

/// The host key algorithms to ask for, those first that a key is known for: "ssh-ed25519,...".
/// Empty: only keys are known that libssh2 cannot check (RSA, certificate authorities).
[[nodiscard]] std::string host_key_algorithms(const std::vector<KnownKey>& keys);

}  // namespace hvd::launch::ssh
