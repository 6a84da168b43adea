// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/ssh_command.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <chrono>

namespace hvd::launch {

std::string bare_name(const Host& host) {
    const std::string_view name = host.name;
    const bool has_brackets = name.size() > 2 && name.front() == '[' && name.back() == ']';
    return std::string(has_brackets ? name.substr(1, name.size() - 2) : name);
}

std::vector<std::string> remote_argv(const Host& host,
                                     const SshOptions& options,
                                     std::string_view line) {
    std::vector<std::string> argv;
    if (options.remote_shell) {
        for (const auto word : split(*options.remote_shell, ' ')) {
            if (!word.empty()) {
                argv.emplace_back(word);
            }
        }
        argv.push_back((host.user ? *host.user + "@" : "") + bare_name(host));
        argv.emplace_back(line);
        return argv;
    }
    const auto patience = std::chrono::floor<std::chrono::seconds>(options.connect_timeout).count();
    // Nobody can answer a question, and of the user's forwardings only one session can have each.
    argv = {"ssh", "-T",
            "-e",  "none",
            "-o",  "BatchMode=yes",
            "-o",  "ClearAllForwardings=yes",
            "-o",  "ConnectTimeout=" + std::to_string(std::max<long long>(patience, 1))};
    const auto add = [&argv](std::string flag, std::string value) {
        argv.push_back(std::move(flag));
        argv.push_back(std::move(value));
    };
    if (options.config) {
        add("-F", options.config->string());
    }
    if (options.identity) {
        add("-o", "IdentitiesOnly=yes");
        add("-i", options.identity->string());
    }
    if (const auto port = host.port ? host.port : options.port) {
        add("-p", std::to_string(*port));
    }
    if (host.user) {
        add("-l", *host.user);
    }
    add("--", bare_name(host));
    argv.emplace_back(line);
    return argv;
}

}  // namespace hvd::launch
