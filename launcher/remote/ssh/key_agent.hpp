// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/net/descriptors.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {
class IoThread;
}  // namespace hvd::launch

namespace hvd::launch::ssh {

/// A connection to ssh-agent that all hosts share. libssh2 has one too, but it would block the loop
/// while the agent asks somebody to touch a token. Thread: io.
class KeyAgent final {
public:
    /// Errors: unavailable, where nobody listens at `path`.
    [[nodiscard]] static Result<std::unique_ptr<KeyAgent>> connect(IoThread& io,
                                                                   const std::string& path);

    KeyAgent(IoThread& io, UniqueFd socket);
    ~KeyAgent();
    KeyAgent(const KeyAgent&) = delete;
    KeyAgent& operator=(const KeyAgent&) = delete;

    using Blobs = std::vector<std::string>;

    /// `done` gets the public keys that it holds. It is called from the loop, like every answer, or
    /// at once with an Error when the agent has gone; it must outlive neither this nor its owner,
    /// who checks.
    void list(std::function<void(Result<Blobs>)> done);

    /// `done` gets the signature as a blob. Errors: unavailable, when the agent refuses.
    void sign(const std::string& blob,
              const std::string& text,
              std::function<void(Result<std::string>)> done);

private:
    using Answer = std::function<void(Result<std::string>)>;

    void request(const std::string& body, Answer answer);
    void receive(std::span<const std::byte> bytes);
    void fail(const Error& error);

    PipeWriter writer_;
    PipeReader reader_;
    std::string received_;
    std::deque<Answer> waiting_;  // the agent answers in order
    bool has_gone_ = false;
};

}  // namespace hvd::launch::ssh
