// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/ssh_command.hpp"

#include "launcher/hosts/host_spec.hpp"

#include <algorithm>
#include <chrono>

namespace hvd::launch {
namespace {

/// Where to connect, and with which key.
void add_flags(std::vector<std::string>& argv, const Host& host, const SshTask& task) {
    if (task.options.identity) {
        argv.insert(argv.end(),
                    {"-o", "IdentitiesOnly=yes", "-i", task.options.identity->string()});
    }
    if (const auto port = host.port ? host.port : task.options.port) {
        argv.insert(argv.end(), {"-p", std::to_string(*port)});
    }
}

}  // namespace

std::string bare_name(const Host& host) {
    const std::string_view name = host.name;
    const bool has_brackets = name.size() > 2 && name.front() == '[' && name.back() == ']';
    return std::string(has_brackets ? name.substr(1, name.size() - 2) : name);
}

std::vector<std::string> remote_argv(const Host& host, const SshTask& task, std::string_view line) {
    std::vector<std::string> argv;
    if (!task.options.remote_shell.empty()) {
        argv = task.options.remote_shell;
        if (is_ssh(argv.front())) {
            add_flags(argv, host, task);
        }
        argv.push_back((host.user ? *host.user + "@" : "") + bare_name(host));
        argv.emplace_back(line);
        return argv;
    }
    const auto timeout = std::chrono::floor<std::chrono::seconds>(task.connect_timeout).count();
    // Nobody can answer a question, and of the user's forwardings only one session can have each.
    argv = {"ssh", "-T",
            "-e",  "none",
            "-o",  "BatchMode=yes",
            "-o",  "ClearAllForwardings=yes",
            "-o",  "ConnectTimeout=" + std::to_string(std::max<long long>(timeout, 1))};
    if (task.options.config) {
        argv.insert(argv.end(), {"-F", task.options.config->string()});
    }
    add_flags(argv, host, task);
    if (host.user) {
        argv.insert(argv.end(), {"-l", *host.user});
    }
    argv.insert(argv.end(), {"--", bare_name(host), std::string(line)});
    return argv;
}

std::string show_command(const std::vector<std::string>& argv) {
    constexpr std::size_t kLongest = 300;
    std::string shown;
    for (const auto& word : argv) {
        shown += shown.empty() ? "" : " ";
        if (word.size() > kLongest) {
            shown += "'(a line of sh, " + std::to_string(word.size()) + " characters)'";
        } else if (word.empty() ||
                   word.find_first_of(" \t\n\"'$&|;<>()*?[~") != std::string::npos) {
            shown += "'" + word + "'";
        } else {
            shown += word;
        }
    }
    return shown;
}

}  // namespace hvd::launch
