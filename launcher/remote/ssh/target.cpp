// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/target.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "launcher/remote/ssh/file_pattern.hpp"
#include "launcher/remote/ssh/ssh_config.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kMaxFile = std::size_t{16} << 20;
constexpr int kSshPort = 22;
constexpr std::string_view kSystemConfig = "/etc/ssh/ssh_config";

std::string read_or_empty(const std::string& path) {
    auto text = read_file(path, kMaxFile);
    return text ? std::move(text).value() : std::string();
}

bool exists(const std::string& path) {
    std::error_code unknown;
    return std::filesystem::exists(path, unknown);
}

/// Relative names are below ~/.ssh in the user's file, below /etc/ssh in the system's.
std::vector<ConfigFile> include_files(const std::string& pattern,
                                      const std::string& from,
                                      const LocalUser& me) {
    std::string path = pattern;
    if (path.starts_with("~/")) {
        path = me.home + path.substr(1);
    } else if (!path.starts_with('/')) {
        path = (from.starts_with("/etc/ssh/") ? "/etc/ssh/" : me.home + "/.ssh/") + path;
    }
    std::vector<ConfigFile> files;
    const auto names = expand_file_pattern(path);
    files.reserve(names.size());
    for (const auto& name : names) {
        files.push_back({.path = name, .text = read_or_empty(name)});
    }
    return files;
}

SshConfig read_config(const Host& host, const SshTask& task, const LocalUser& me) {
    const ConfigQuery query{.host = bare_name(host),
                            .user = host.user,
                            .local_user = me.name,
                            .include = [&me](const std::string& pattern, const std::string& from) {
                                return include_files(pattern, from, me);
                            }};
    SshConfig config;
    std::vector<std::string> paths{me.home + "/.ssh/config", std::string(kSystemConfig)};
    if (task.options.config) {
        paths = {task.options.config->string()};
    }
    for (const auto& path : paths) {
        read_ssh_config({.path = path, .text = read_or_empty(path)}, query, config);
    }
    return config;
}

UseSystemSsh unknown_token(const std::string& keyword) {
    return {"of an unknown token or an unset variable in " + keyword};
}

/// "none", "SSH_AUTH_SOCK", "$NAME" or a path. Empty where there is no agent; nothing where the
/// path has what we cannot replace.
std::optional<std::string> agent_socket(const SshConfig& config, const ConfigTokens& tokens) {
    const auto written = config.identity_agent.value_or("SSH_AUTH_SOCK");
    if (written == "none") {
        return "";
    }
    const bool has_sign = written.starts_with('$') && !written.starts_with("${");
    if (has_sign || written == "SSH_AUTH_SOCK") {
        return find(*tokens.environment, written.substr(has_sign ? 1 : 0)).value_or("");
    }
    return expand_tokens(written, tokens);
}

/// Nothing, where a name has what we cannot replace.
std::optional<std::vector<std::string>> key_files(const SshConfig& config,
                                                  const SshTask& task,
                                                  const ConfigTokens& tokens) {
    if (task.options.identity) {
        return std::vector{task.options.identity->string()};
    }
    auto written = config.identity_files;
    if (written.empty()) {
        written = {"~/.ssh/id_rsa",     "~/.ssh/id_ecdsa",      "~/.ssh/id_ecdsa_sk",
                   "~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk", "~/.ssh/id_dsa"};
    }
    std::vector<std::string> files;
    for (const auto& name : written) {
        auto path = expand_tokens(name, tokens);
        if (!path) {
            return std::nullopt;
        }
        // Of a pair, an agent may have the private half.
        const auto& key = *path;
        if (name != "none" && (exists(key) || exists(key + ".pub") || exists(key + "-cert.pub"))) {
            files.push_back(*std::move(path));
        }
    }
    return files;
}

bool is_preferred(const SshConfig& config, std::string_view method) {
    const auto& list = config.preferred_authentications;
    return !list || std::ranges::count(split(*list, ','), method) > 0;
}

/// The methods besides keys that ssh tries without asking the user, where the configuration enables
/// them.
std::vector<std::string> other_methods(const SshConfig& config) {
    std::vector<std::string> methods;
    const auto add = [&](const std::string& method, const std::optional<std::string>& setting) {
        if ((setting == "yes" || setting == "true") && is_preferred(config, method)) {
            methods.push_back(method);
        }
    };
    add("gssapi-with-mic", config.gssapi_authentication);
    add("hostbased", config.hostbased_authentication);
    return methods;
}

/// A connection that the user's own ssh shares would be used by ssh, at no handshake.
bool has_live_control_path(const SshConfig& config, const ConfigTokens& tokens) {
    if (!config.control_path || *config.control_path == "none") {
        return false;
    }
    const auto path = expand_tokens(*config.control_path, tokens);
    return !path || exists(*path);
}

/// False, where a name has what we cannot replace.
bool load_known_hosts(SshTarget& target,
                      const SshConfig& config,
                      const ConfigTokens& tokens,
                      KnownHostsFiles& known_hosts) {
    auto written = config.user_known_hosts;
    if (written.empty()) {
        written = {"~/.ssh/known_hosts", "~/.ssh/known_hosts2"};
    }
    std::vector<std::string> files;
    for (const auto& name : written) {
        auto path = expand_tokens(name, tokens);
        if (!path) {
            return false;
        }
        files.push_back(*std::move(path));
    }
    target.known_hosts_file = files.front();
    const auto global =
        config.global_known_hosts.empty()
            ? std::vector<std::string>{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}
            : config.global_known_hosts;
    for (const auto& name : global) {
        files.push_back(expand_tokens(name, tokens).value_or(name));
    }
    const auto find_keys = [&](const std::string& name) {
        std::vector<KnownKey> keys;
        for (const auto& path : files) {
            std::ranges::move(known_hosts.read(path).find(name), std::back_inserter(keys));
        }
        return keys;
    };
    target.known_keys = find_keys(target.known_hosts_name);
    const bool has_key = std::ranges::any_of(target.known_keys, [](const KnownKey& key) {
        return key.marker != KnownKey::Marker::revoked;
    });
    if (!has_key && target.port != kSshPort && !config.host_key_alias) {
        target.keys_without_port = find_keys(target.name);
    }
    target.host_key_algorithms = host_key_algorithms(
        target.keys_without_port.empty() ? target.known_keys : target.keys_without_port);
    return true;
}

/// Which key the host may have. Gives why only ssh can check it.
std::optional<UseSystemSsh> read_host_keys(SshTarget& target,
                                           const SshConfig& config,
                                           const ConfigTokens& tokens,
                                           KnownHostsFiles& known_hosts) {
    target.known_hosts_name =
        config.host_key_alias.value_or(known_hosts_name(target.name, target.port));
    if (!load_known_hosts(target, config, tokens, known_hosts)) {
        return unknown_token("a UserKnownHostsFile");
    }
    const auto strict = config.strict_host_key_checking.value_or("ask");
    const bool is_known = std::ranges::any_of(
        target.known_keys, [](const auto& key) { return key.marker == KnownKey::Marker::none; });
    if (target.host_key_algorithms.empty()) {
        return UseSystemSsh{"its known host key is of a type that only ssh can check"};
    }
    if (!is_known && strict != "ask" && strict != "yes") {
        return UseSystemSsh{"of StrictHostKeyChecking " + strict};
    }
    target.accepts_changed_key = strict == "no" || strict == "off";
    return std::nullopt;
}

/// How we sign in. Gives why only ssh can.
std::optional<UseSystemSsh> read_own_keys(SshTarget& target,
                                          const SshConfig& config,
                                          const SshTask& task,
                                          const ConfigTokens& tokens) {
    auto files = key_files(config, task, tokens);
    if (!files) {
        return unknown_token("an IdentityFile");
    }
    if (!is_preferred(config, "publickey")) {
        return UseSystemSsh{"of PreferredAuthentications without publickey"};
    }
    const auto socket = agent_socket(config, tokens);
    if (!socket) {
        return unknown_token("an IdentityAgent");
    }
    target.key_files = *std::move(files);
    target.other_methods = other_methods(config);
    target.identities_only = task.options.identity || config.identities_only.value_or(false);
    target.agent_socket = socket->empty() ? std::nullopt : socket;
    return std::nullopt;
}

std::optional<int> address_family(const SshConfig& config) {
    const auto written = config.address_family.value_or("any");
    if (written == "inet") {
        return AF_INET;
    }
    return written == "inet6" ? std::optional(AF_INET6) : std::nullopt;
}

}  // namespace

LocalUser local_user(const Environment& environment) {
    LocalUser me{.name = find(environment, "USER").value_or(""),
                 .home = find(environment, "HOME").value_or("")};
    constexpr std::size_t kMostBytes = std::size_t{1} << 16;
    std::vector<char> buffer(kMostBytes);
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
        found != nullptr) {
        me = {.name = found->pw_name, .home = found->pw_dir};
    }
    return me;
}

std::variant<SshTarget, UseSystemSsh> make_target(const Host& host,
                                                  const SshTask& task,
                                                  const LocalUser& me,
                                                  const Environment& environment,
                                                  KnownHostsFiles& known_hosts) {
    const auto config = read_config(host, task, me);
    if (config.unsupported) {
        return UseSystemSsh{"of " + *config.unsupported};
    }
    const auto port = host.port ? host.port : task.options.port;
    SshTarget target{.words_for_ssh =
                         (port ? "-p " + std::to_string(*port) + " " : "") + bare_name(host)};
    ConfigTokens tokens{
        .host = bare_name(host), .original = bare_name(host), .local = me.name, .home = me.home};
    const auto name = expand_tokens(config.hostname.value_or(bare_name(host)), tokens);
    target.user = host.user ? *host.user : config.user.value_or(me.name);
    if (!name || target.user.empty() || me.home.empty()) {
        return UseSystemSsh{"it could not be told where, or as whom, to connect"};
    }
    target.name = *name;
    target.port = port.value_or(config.port.value_or(kSshPort));
    tokens.host = target.name;
    tokens.port = std::to_string(target.port);
    tokens.user = target.user;
    tokens.environment = &environment;
    if (has_live_control_path(config, tokens)) {
        return UseSystemSsh{"of a ControlPath"};
    }
    if (auto unsupported = read_own_keys(target, config, task, tokens)) {
        return *std::move(unsupported);
    }
    target.address_family = address_family(config);
    target.connect_timeout =
        config.connect_timeout_s
            ? std::min<std::chrono::milliseconds>(std::chrono::seconds(*config.connect_timeout_s),
                                                  task.connect_timeout)
            : task.connect_timeout;
    target.answer_timeout = task.answer_timeout;
    if (auto unsupported = read_host_keys(target, config, tokens, known_hosts)) {
        return *std::move(unsupported);
    }
    return target;
}

}  // namespace hvd::launch::ssh
