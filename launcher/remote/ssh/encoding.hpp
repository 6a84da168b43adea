// SPDX-License-Identifier: Apache-2.0
//
// Texts and hashes of the SSH file formats. Keys are strings of bytes ("blobs") as on the wire.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct evp_mac_ctx_st;  // of OpenSSL

namespace hvd::launch::ssh {

/// Nothing, if it is not base64. Blanks and line ends are skipped.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);
[[nodiscard]] std::string encode_base64(std::string_view bytes);

/// As `ssh-keygen -l` shows it: "SHA256:...".
[[nodiscard]] std::string fingerprint(std::string_view blob);

/// HMAC-SHA1. Made once for many keys: the search for the algorithm costs more than its work.
class HmacSha1 final {
public:
    HmacSha1();

    /// Valid until the next call.
    [[nodiscard]] std::string_view of(std::string_view key, std::string_view text);

private:
    struct Free {
        void operator()(evp_mac_ctx_st* context) const noexcept;
    };

    std::unique_ptr<evp_mac_ctx_st, Free> context_;
    std::array<char, 20> digest_{};
};

/// Takes fields off the front of bytes of the SSH protocol. After a field that is not there, all
/// are nothing.
class FieldReader final {
public:
    explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
    [[nodiscard]] std::optional<std::uint32_t> number();
    [[nodiscard]] std::optional<std::string> text();
    [[nodiscard]] bool skip(std::string_view expected);

private:
    std::string_view rest_;
};

[[nodiscard]] std::string number_field(std::uint32_t number);
[[nodiscard]] std::string text_field(std::string_view text);

/// The type of a key, which its blob begins with: "ssh-ed25519"; "" if malformed.
[[nodiscard]] std::string key_type(std::string_view blob);

/// Whether libssh2 1.10 can use keys of this type.
[[nodiscard]] bool is_usable_key_type(std::string_view type);

}  // namespace hvd::launch::ssh
