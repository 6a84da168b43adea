// SPDX-License-Identifier: Apache-2.0
//
// ~/.ssh/config and known_hosts, whatever they hold: reading them ends, a value that is set stays,
// and a key is never known that no line of the file has.
#include "collectives/base/assert.hpp"
#include "launcher/remote/ssh/known_hosts.hpp"
#include "launcher/remote/ssh/ssh_config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace hvd::launch::ssh;  // NOLINT(google-build-using-namespace): the tested one

template <class Value>
bool stays(const std::optional<Value>& before, const std::optional<Value>& after) {
    return !before || before == after;
}

/// The text includes itself, once.
void read_config(std::string_view text) {
    int included = 0;
    const ConfigFile file{.path = "/home/a/.ssh/config", .text = std::string(text)};
    const ConfigQuery query{
        .host = "node1",
        .user = std::nullopt,
        .local_user = "a",
        .include = [&](const std::string& /*pattern*/, const std::string& /*from*/) {
            return std::vector<ConfigFile>(included++ < 1 ? 1 : 0, file);
        }};
    SshConfig config;
    read_ssh_config(file, query, config);
    included = 0;
    HVD_ASSERT(config.port.value_or(1) >= 1 && config.port.value_or(1) <= 65535, "a real port");
    const SshConfig before = config;
    read_ssh_config(file, query, config);
    HVD_ASSERT(stays(before.hostname, config.hostname) && stays(before.port, config.port) &&
                   stays(before.user, config.user) &&
                   stays(before.host_key_alias, config.host_key_alias) &&
                   stays(before.strict_host_key_checking, config.strict_host_key_checking),
               "what is set stays");
    const ConfigTokens tokens{.host = "10.0.0.1",
                              .original = "node1",
                              .port = "22",
                              .user = "a",
                              .local = "b",
                              .home = "/"};
    (void)expand_tokens(text, tokens);
}

void read_known_hosts(std::string_view text) {
    for (const auto& name : {known_hosts_name("node1", 22), known_hosts_name("node1", 2222)}) {
        const auto keys = KnownHosts(std::string(text), "/home/a/.ssh/known_hosts").find(name);
        (void)host_key_algorithms(keys);
        HVD_ASSERT(judge_host_key(keys, "no such blob!") != HostKeyVerdict::known,
                   "a key that no line has is not known");
        for (const auto& key : keys) {
            const auto verdict = judge_host_key(keys, key.blob);
            HVD_ASSERT(
                key.marker != KnownKey::Marker::revoked || verdict == HostKeyVerdict::revoked,
                "a revoked key is revoked");
            HVD_ASSERT(key.marker != KnownKey::Marker::none || verdict == HostKeyVerdict::known ||
                           verdict == HostKeyVerdict::revoked,
                       "a key of the file is known");
        }
    }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    read_config(text);
    read_known_hosts(text);
    return 0;
}
