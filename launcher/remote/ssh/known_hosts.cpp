// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/known_hosts.hpp"

#include "collectives/base/text.hpp"
#include "launcher/remote/ssh/encoding.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace hvd::launch::ssh {
namespace {

constexpr std::array<std::string_view, 4> kAlgorithms{"ssh-ed25519", "ecdsa-sha2-nistp256",
                                                      "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"};

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

/// The next word of a line.
std::string_view take_word(std::string_view& line) {
    line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
    const auto word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    return word;
}

/// "|1|salt|hash"
bool matches_hash(std::string_view pattern, std::string_view name) {
    const auto parts = split(pattern, '|');
    if (parts.size() != 4 || parts[1] != "1") {
        return false;
    }
    const auto salt = decode_base64(parts[2]);
    const auto hash = decode_base64(parts[3]);
    return salt && hash && hmac_sha1(*salt, name) == *hash;
}

bool matches(std::string_view patterns, std::string_view name) {
    if (patterns.starts_with('|')) {
        return matches_hash(patterns, name);
    }
    bool found = false;
    for (auto pattern : split(patterns, ',')) {
        const bool is_negated = pattern.starts_with('!');
        pattern.remove_prefix(is_negated ? 1 : 0);
        if (matches_glob(name, lower(pattern))) {
            if (is_negated) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

}  // namespace

std::string known_hosts_name(std::string_view host, int port) {
    constexpr int kSshPort = 22;
    const auto name = lower(host);
    return port == kSshPort ? name : "[" + name + "]:" + std::to_string(port);
}

std::vector<KnownKey> find_known_keys(std::string_view file_text,
                                      std::string_view path,
                                      std::string_view name) {
    const auto wanted = lower(name);
    std::vector<KnownKey> keys;
    std::size_t number = 0;
    for (const auto raw : split(file_text, '\n')) {
        ++number;
        auto line = trim(raw);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        KnownKey key;
        auto word = take_word(line);
        if (word.starts_with('@')) {
            if (word != "@revoked" && word != "@cert-authority") {
                continue;
            }
            key.marker =
                word == "@revoked" ? KnownKey::Marker::revoked : KnownKey::Marker::cert_authority;
            word = take_word(line);
        }
        if (!matches(word, wanted)) {
            continue;
        }
        const auto type = take_word(line);
        auto blob = decode_base64(take_word(line));
        if (!blob || blob->empty() || key_type(*blob) != type) {
            continue;
        }
        key.type = type;
        key.blob = *std::move(blob);
        key.place = std::string(path) + ":" + std::to_string(number);
        keys.push_back(std::move(key));
    }
    return keys;
}

HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys, std::string_view blob) {
    bool is_known = false;
    bool has_other = false;
    for (const auto& key : keys) {
        if (key.marker == KnownKey::Marker::revoked && key.blob == blob) {
            return HostKeyVerdict::revoked;
        }
        if (key.marker == KnownKey::Marker::none) {
            is_known = is_known || key.blob == blob;
            has_other = true;
        }
    }
    if (is_known) {
        return HostKeyVerdict::known;
    }
    return has_other ? HostKeyVerdict::changed : HostKeyVerdict::unknown;
}

std::string host_key_algorithms(const std::vector<KnownKey>& keys) {
    const auto is_plain = [](const KnownKey& key) { return key.marker == KnownKey::Marker::none; };
    const bool is_known = std::ranges::any_of(keys, is_plain);
    if (!is_known && !keys.empty() && std::ranges::any_of(keys, [](const KnownKey& key) {
            return key.marker == KnownKey::Marker::cert_authority;
        })) {
        return {};
    }
    std::string algorithms;
    for (const auto algorithm : kAlgorithms) {
        const bool has_key = std::ranges::any_of(
            keys, [&](const KnownKey& key) { return is_plain(key) && key.type == algorithm; });
        if (has_key || !is_known) {
            algorithms += (algorithms.empty() ? "" : ",") + std::string(algorithm);
        }
    }
    return algorithms;
}

}  // namespace hvd::launch::ssh
