// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/known_hosts.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/remote/ssh/encoding.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kMaxFile = std::size_t{16} << 20;

/// The cheapest first: sshd signs with P-256 by OpenSSL's assembly, with ed25519 by plain C.
constexpr std::array<std::string_view, 4> kAlgorithms{"ecdsa-sha2-nistp256", "ssh-ed25519",
                                                      "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"};

/// The next word of a line.
std::string_view take_word(std::string_view& line) {
    line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
    const auto word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    return word;
}

/// `patterns` is in lower case, as names are.
bool matches(std::string_view patterns, std::string_view name) {
    bool found = false;
    for (auto pattern : split(patterns, ',')) {
        const bool is_negated = pattern.starts_with('!');
        pattern.remove_prefix(is_negated ? 1 : 0);
        if (matches_glob(name, pattern)) {
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
    const auto name = to_lower(host);
    return port == kSshPort ? name : "[" + name + "]:" + std::to_string(port);
}

KnownHosts::KnownHosts(std::string text, std::string path)
    : text_(std::move(text)), path_(std::move(path)) {
    std::size_t number = 0;
    for (const auto raw : split(text_, '\n')) {
        ++number;
        auto line = trim(raw);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        Entry entry{.line = number};
        auto word = take_word(line);
        if (word.starts_with('@')) {
            if (word != "@revoked" && word != "@cert-authority") {
                continue;
            }
            entry.marker =
                word == "@revoked" ? KnownKey::Marker::revoked : KnownKey::Marker::cert_authority;
            word = take_word(line);
        }
        entry.type = take_word(line);
        entry.blob = take_word(line);
        entries_.push_back(entry);
        add_names(word, entries_.size() - 1);
    }
}

/// "node1,10.0.0.1", "node*,!node7", or "|1|salt|hash".
void KnownHosts::add_names(std::string_view names, std::size_t entry) {
    if (names.starts_with('|')) {
        const auto parts = split(names, '|');
        auto salt = parts.size() == 4 ? decode_base64(parts[2]) : std::nullopt;
        auto hash = parts.size() == 4 ? decode_base64(parts[3]) : std::nullopt;
        if (salt && hash && parts[1] == "1") {
            hashed_.push_back({.salt = *std::move(salt), .hash = *std::move(hash), .entry = entry});
        }
        return;
    }
    auto written = to_lower(names);
    if (written.find_first_of("*?!") != std::string::npos) {
        patterns_.push_back({.text = std::move(written), .entry = entry});
        return;
    }
    for (const auto name : split(written, ',')) {
        auto& lines = by_name_[std::string(name)];
        if (lines.empty() || lines.back() != entry) {  // a name may stand twice
            lines.push_back(entry);
        }
    }
}

/// A hash is of one name, so a line that has been found is gone through no more.
void KnownHosts::unhash(const std::string& name) {
    if (hashed_.empty()) {
        return;
    }
    HmacSha1 hmac;
    std::erase_if(hashed_, [&](const Hashed& one) {
        const bool is_it = !one.hash.empty() && hmac.of(one.salt, name) == one.hash;
        if (is_it) {
            by_name_[name].push_back(one.entry);
        }
        return is_it;
    });
}

std::vector<KnownKey> KnownHosts::find(std::string_view name) {
    const auto wanted = to_lower(name);
    unhash(wanted);
    std::vector<std::size_t> found;
    if (const auto plain = by_name_.find(wanted); plain != by_name_.end()) {
        found = plain->second;
    }
    for (const auto& [text, entry] : patterns_) {
        if (matches(text, wanted)) {
            found.push_back(entry);
        }
    }
    std::ranges::sort(found);
    std::vector<KnownKey> keys;
    for (const auto index : found) {
        const auto& entry = entries_[index];
        auto blob = decode_base64(entry.blob);
        if (blob && !blob->empty() && key_type(*blob) == entry.type) {
            keys.push_back({.marker = entry.marker,
                            .type = std::string(entry.type),
                            .blob = *std::move(blob),
                            .place = path_ + ":" + std::to_string(entry.line)});
        }
    }
    return keys;
}

KnownHosts& KnownHostsFiles::read(const std::string& path) {
    const auto known = files_.find(path);
    if (known != files_.end()) {
        return known->second;
    }
    auto text = read_file(path, kMaxFile);
    return files_.try_emplace(path, text ? std::move(text).value() : std::string(), path)
        .first->second;
}

HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys,
                              std::string_view blob,
                              const std::vector<KnownKey>& without_port) {
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
    if (has_other) {
        return HostKeyVerdict::changed;
    }
    if (without_port.empty()) {
        return HostKeyVerdict::unknown;
    }
    const auto verdict = judge_host_key(without_port, blob);
    return verdict == HostKeyVerdict::changed ? HostKeyVerdict::unknown : verdict;
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
