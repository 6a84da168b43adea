// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/key_file.hpp"

#include "launcher/remote/ssh/encoding.hpp"

#include <optional>

namespace hvd::launch::ssh {
namespace {

std::optional<std::string_view> between(std::string_view text,
                                        std::string_view begin,
                                        std::string_view end) {
    const auto from = text.find(begin);
    const auto to = text.find(end);
    if (from == std::string_view::npos || to == std::string_view::npos ||
        from + begin.size() > to) {
        return std::nullopt;
    }
    return text.substr(from + begin.size(), to - from - begin.size());
}

/// "openssh-key-v1", cipher, key derivation, its options, number of keys, public blob, ...
KeyFile inspect_openssh(std::string_view bytes) {
    FieldReader reader(bytes);
    if (!reader.skip(std::string_view("openssh-key-v1\0", 15))) {
        return {};
    }
    const auto cipher = reader.text();
    const bool has_header = reader.text() && reader.text();
    const auto count = reader.number();
    auto blob = reader.text();
    if (!cipher || !has_header || count != 1U || !blob) {
        return {};
    }
    KeyFile file{.type = key_type(*blob), .public_blob = *std::move(blob)};
    if (is_usable_key_type(file.type)) {
        file.kind = *cipher == "none" ? KeyFile::Kind::usable : KeyFile::Kind::encrypted;
    }
    return file;
}

}  // namespace

KeyFile inspect_key_file(std::string_view text) {
    if (const auto body = between(text, "-----BEGIN OPENSSH PRIVATE KEY-----",
                                  "-----END OPENSSH PRIVATE KEY-----")) {
        const auto bytes = decode_base64(*body);
        return bytes ? inspect_openssh(*bytes) : KeyFile{};
    }
    if (const auto body =
            between(text, "-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----")) {
        const bool is_encrypted = body->find("ENCRYPTED") != std::string_view::npos;
        return {.kind = is_encrypted ? KeyFile::Kind::encrypted : KeyFile::Kind::usable};
    }
    return {};
}

}  // namespace hvd::launch::ssh
