// SPDX-License-Identifier: Apache-2.0
//
// libssh2, as far as we use it, without blocking. For this folder only: it includes libssh2's
// header.
#pragma once

#include "collectives/base/result.hpp"

#include <libssh2.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hvd::launch::ssh {

/// How a call went that may have to be repeated when the socket is ready.
enum class Step { done, again, failed };

/// One session with one channel on a socket that somebody else owns and that outlives it.
class SshSession final {
public:
    /// Throws Exception where there is no memory. `algorithms`: the host keys to ask for.
    SshSession(int fd, const std::string& algorithms);
    ~SshSession();
    SshSession(const SshSession&) = delete;
    SshSession& operator=(const SshSession&) = delete;

    [[nodiscard]] Step handshake();
    [[nodiscard]] bool has_seen_banner() const;
    [[nodiscard]] std::string host_key() const;

    /// `public_path` may be empty: then it costs the search for the key's public half.
    [[nodiscard]] Step sign_in_with_file(const std::string& user,
                                         const std::string& path,
                                         const std::string& public_path);

    /// Gives the signature, nothing while it is awaited, or an Error.
    using Sign = std::function<std::optional<Result<std::string>>(std::string_view text)>;
    [[nodiscard]] Step sign_in(const std::string& user, const std::string& blob, Sign sign);

    /// The methods that the host accepts: "publickey,password". Only after another one was refused.
    [[nodiscard]] Step list_methods(const std::string& user, std::string& methods);

    /// Why the host has hung up, in its own words; nothing while it has not. To libssh2 that is
    /// mostly a refusal like any other.
    [[nodiscard]] const std::optional<std::string>& farewell() const noexcept { return farewell_; }

    [[nodiscard]] Step open_channel();

    /// One that has been closed: another may be opened then.
    void forget_channel();

    [[nodiscard]] Step execute(std::string_view line);

    enum class Stream { output, errors };

    /// `size` is 0 at `done` where the stream has ended.
    [[nodiscard]] Step read(Stream stream, std::span<std::byte> buffer, std::size_t& size);
    [[nodiscard]] Step write(std::span<const std::byte> bytes, std::size_t& size);
    [[nodiscard]] Step send_end();
    [[nodiscard]] bool has_ended() const;  // the other side will send no more

    /// Whether bytes wait to be read that no socket will announce any more: each call takes from
    /// the socket what there is, whatever stream it is for.
    [[nodiscard]] bool has_unread() const;
    [[nodiscard]] Step close_channel();

    /// How the program ended; nothing where it was in order.
    [[nodiscard]] std::optional<std::string> exit_words() const;

    /// Whether what returned `again` waits for room to send: until then only it may be called.
    [[nodiscard]] bool is_sending() const;

    [[nodiscard]] std::string last_error() const;
    [[nodiscard]] int last_code() const;

private:
    [[nodiscard]] static Step step(long code);

    LIBSSH2_SESSION* session_ = nullptr;
    LIBSSH2_CHANNEL* channel_ = nullptr;
    int fd_;
    std::optional<std::string> farewell_;
    Sign sign_;
    void* signer_ = &sign_;  // what libssh2 hands to the signing function
};

}  // namespace hvd::launch::ssh
