// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hvd::launch::ssh {

/// The facts about a private key file that need no passphrase.
struct KeyFile {
    enum class Kind {
        usable,       // libssh2 can sign with it
        encrypted,    // it needs a passphrase: an agent, or nobody, has it
        unsupported,  // RSA, DSA, FIDO, or a format we do not read
    };

    Kind kind = Kind::unsupported;
    std::string type{};         // "ssh-ed25519"; "" where the format does not say
    std::string public_blob{};  // "" where the format does not say
    friend bool operator==(const KeyFile&, const KeyFile&) = default;
};

[[nodiscard]] KeyFile inspect_key_file(std::string_view text);

}  // namespace hvd::launch::ssh
