// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "launcher/remote/ssh/key_agent.hpp"
#include "launcher/remote/ssh/ssh_session.hpp"
#include "launcher/remote/ssh/target.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::ssh {

/// The agents that hosts are reached with, one connection each. Thread: io.
class KeyRing final {
public:
    explicit KeyRing(IoThread& io) : io_(io) {}

    /// Nothing, where there is none at that path.
    [[nodiscard]] KeyAgent* find(const std::string& path);

private:
    IoThread& io_;
    std::map<std::string, std::unique_ptr<KeyAgent>> agents_;
};

/// Tries the keys of one user at one host: those of the agent that the files name, the agent's
/// other ones, then the files. Thread: io.
class SignIn final {
public:
    /// `wake` is called when `step` can go on for another reason than the socket.
    SignIn(const SshTarget& target, std::shared_ptr<KeyRing> keys, std::function<void()> wake);

    [[nodiscard]] Step step(SshSession& session);

    /// After `failed`. unsupported: the system's ssh might do better.
    [[nodiscard]] Error error() const { return *error_; }

private:
    struct Attempt {
        std::string label;          // as printed
        std::string blob;           // of the agent's key
        std::string path;           // else the file
        std::string public_path{};  // and its public half, where that is the right one
    };

    void collect(const KeyAgent::Blobs& held);
    void note_certificate(const std::string& key_file);
    [[nodiscard]] Step attempt(SshSession& session, const Attempt& attempt);
    [[nodiscard]] std::optional<Result<std::string>> sign(const std::string& blob,
                                                          std::string_view text);
    [[nodiscard]] std::string told_by(const std::string& farewell) const;
    [[nodiscard]] Step give_up(SshSession& session);

    const SshTarget& target_;        // of the transport that owns this
    std::shared_ptr<KeyRing> keys_;  // shared by all transports and the starter
    std::function<void()> wake_;
    bool is_collected_ = false;
    std::vector<Attempt> attempts_;
    std::size_t next_ = 0;
    std::string refused_;        // labels
    std::string unusable_keys_;  // keys and certificates that we cannot use
    enum class Signing { idle, asked, answered };
    Signing signing_ = Signing::idle;
    std::optional<Result<std::string>> signature_;
    std::optional<Error> error_;
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // watched by the agent's answers
};

}  // namespace hvd::launch::ssh
