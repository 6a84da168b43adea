// SPDX-License-Identifier: Apache-2.0
//
// Whether a host's key is the one that known_hosts files have for it. libssh2's own check misses
// names of two characters and knows neither patterns nor markers.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// One file, which is read once and asked for each host: sites have a line per host and key. Plain
/// names are looked up; only lines with patterns, and hashed names that no host has been found by,
/// are gone through each time.
class KnownHosts final {
public:
    KnownHosts(std::string text, std::string path);
    ~KnownHosts() = default;
    KnownHosts(const KnownHosts&) = delete;
    KnownHosts& operator=(const KnownHosts&) = delete;

    /// The keys of the lines that match the name, in their order: plain names in any case, `*` and
    /// `?`, `!`, hashed names. Malformed lines are skipped, as ssh does.
    [[nodiscard]] std::vector<KnownKey> find(std::string_view name);

private:
    /// A line. Views are into the text.
    struct Entry {
        KnownKey::Marker marker = KnownKey::Marker::none;
        std::string_view type{};
        std::string_view blob{};  // base64
        std::size_t line = 0;
    };
    struct Hashed {
        std::string salt;
        std::string hash;
        std::size_t entry = 0;
    };
    struct Patterns {
        std::string text;
        std::size_t entry = 0;
    };

    void add_names(std::string_view names, std::size_t entry);
    void unhash(const std::string& name);

    std::string text_;
    std::string path_;
    std::vector<Entry> entries_;
    std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
    std::vector<Patterns> patterns_;
    std::vector<Hashed> hashed_;
};

/// The files that hosts name, each read once. Thread: one.
class KnownHostsFiles final {
public:
    [[nodiscard]] KnownHosts& read(const std::string& path);

private:
    std::map<std::string, KnownHosts> files_;
};

enum class HostKeyVerdict { known, unknown, changed, revoked };

/// `without_port`: keys of the host's name alone, which count where `keys`, those of its name and
/// port, do not tell. As in ssh, another key there changes nothing.
[[nodiscard]] HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys,
                                            std::string_view blob,
                                            const std::vector<KnownKey>& without_port = {});

/// The host key algorithms to ask for, those first that a key is known for: "ssh-ed25519,...".
/// Empty: only keys are known that libssh2 cannot check (RSA, certificate authorities).
[[nodiscard]] std::string host_key_algorithms(const std::vector<KnownKey>& keys);

}  // namespace hvd::launch::ssh
