// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hvd::launch {

/// Reads what a host prints before its agent speaks: the lines of the bootstrap, the agent's magic
/// word, and between them whatever start-up files of the login shell had to say (the banner).
class BootstrapFilter final {
public:
    static constexpr std::size_t kMaxBanner = std::size_t{64} << 10;

    enum class Kind {
        nothing,     // more bytes are needed
        in_shell,    // the host executes the bootstrap
        send_agent,  // the host asks for the agent's file
        started,     // from here on it is the agent's stream; text: its bytes so far
        failed,      // text: why
    };

    struct Event {
        Kind kind = Kind::nothing;
        std::string text{};
    };

    void feed(std::span<const std::byte> bytes);

    /// To be called until it gives `nothing`; after `started` and `failed` no more.
    [[nodiscard]] Event next();

    /// The other output so far, as one printable line: "Welcome to node1; 3 updates".
    [[nodiscard]] std::string banner() const;

private:
    [[nodiscard]] std::string_view unread() const;
    void skip(std::size_t bytes);  // into the banner

    std::string bytes_;
    std::size_t read_ = 0;  // of bytes_
    std::string banner_;
};

/// "20 s", rounded up.
[[nodiscard]] std::string rounded_seconds(std::chrono::milliseconds span);

}  // namespace hvd::launch
