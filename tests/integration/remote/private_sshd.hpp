// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/remote/factory.hpp"
#include "tests/support/temp_dir.hpp"

#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvd::test {

/// Whether there is one to start; if not, the test's case is skipped.
[[nodiscard]] bool has_sshd();

/// An sshd of the test's own on 127.0.0.1, with its own host keys (ed25519, RSA), port and files,
/// run as the current user, whose key is `key`. Ends with the object.
class PrivateSshd {
public:
    /// Throws Exception where there is no sshd; ask `has_sshd` before.
    explicit PrivateSshd(std::string_view more_config = "");
    ~PrivateSshd();
    PrivateSshd(const PrivateSshd&) = delete;
    PrivateSshd& operator=(const PrivateSshd&) = delete;

    /// Runs a line of shell in the folder; throws if it fails.
    void run(const std::string& line) const;

    /// Options whose ssh configuration is: "Host node*" is this sshd, its key is known, `key` is
    /// the identity. `more` goes before.
    [[nodiscard]] launch::SshTask options(std::string_view more = "") const;

    [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
    [[nodiscard]] int port() const noexcept { return port_; }

private:
    TempDir folder_;
    int port_ = 0;
    pid_t pid_ = 0;
};

/// An ssh-agent that has the `key` of such an sshd, which is `elsewhere` from then on. Ends with
/// the object.
class KeyAgent {
public:
    explicit KeyAgent(const PrivateSshd& sshd);
    ~KeyAgent();
    KeyAgent(const KeyAgent&) = delete;
    KeyAgent& operator=(const KeyAgent&) = delete;

    /// For `PrivateSshd::options`: it has the keys for "node*".
    [[nodiscard]] std::string settings() const;

private:
    const PrivateSshd& sshd_;
};

}  // namespace hvd::test
