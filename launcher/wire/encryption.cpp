// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/encryption.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace hvd::launch::wire {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kHeaderBytes = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t kExtraBytes = crypto_secretstream_xchacha20poly1305_ABYTES;

const unsigned char* raw(const std::byte* bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes);
}

unsigned char* raw(std::byte* bytes) noexcept {
    return reinterpret_cast<unsigned char*>(bytes);
}

std::uint32_t read_length(const std::byte* record) noexcept {
    std::uint32_t length = 0;
    std::memcpy(&length, record, kLengthBytes);
    return length;
}

Error broken(const std::string& why) {
    return {Errc::invalid_argument, "encrypted stream: " + why};
}

}  // namespace

Error stream_cut() {
    return {Errc::unavailable, "the connection ended before the last record of its stream"};
}

// ---- Encryptor ----

Encryptor::Encryptor(const Key& key) : out_(kHeaderBytes) {
    (void)crypto_secretstream_xchacha20poly1305_init_push(&state_, raw(out_.data()),
                                                          raw(key.data()));
}

void Encryptor::append(std::span<const std::byte> text, unsigned char tag) {
    const auto length = static_cast<std::uint32_t>(text.size());
    const auto before = out_.size();
    out_.resize(before + kLengthBytes + text.size() + kExtraBytes);
    auto* record = out_.data() + before;
    std::memcpy(record, &length, kLengthBytes);
    (void)crypto_secretstream_xchacha20poly1305_push(&state_, raw(record + kLengthBytes), nullptr,
                                                     raw(text.data()), text.size(), nullptr, 0,
                                                     tag);
}

std::vector<std::byte> Encryptor::encrypt(std::span<const std::byte> first,
                                          std::span<const std::byte> second) {
    HVD_ASSERT(!is_finished_, "nothing follows the last record");
    std::vector<std::byte> joined;
    if (!second.empty()) {
        joined.reserve(first.size() + second.size());
        joined.assign(first.begin(), first.end());
        joined.insert(joined.end(), second.begin(), second.end());
        first = joined;
    }
    while (!first.empty()) {
        const auto size = std::min(first.size(), kMaxRecord);
        append(first.first(size), crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
        first = first.subspan(size);
    }
    return std::exchange(out_, {});
}

std::vector<std::byte> Encryptor::finish() {
    if (!std::exchange(is_finished_, true)) {
        append({}, crypto_secretstream_xchacha20poly1305_TAG_FINAL);
    }
    return std::exchange(out_, {});
}

// ---- Decryptor ----

/// Of what begins at the start of the buffer.
std::size_t Decryptor::next_size() const noexcept {
    if (!has_header_) {
        return kHeaderBytes;
    }
    return buffer_.size() < kLengthBytes ? kLengthBytes
                                         : kLengthBytes + read_length(buffer_.data()) + kExtraBytes;
}

std::size_t Decryptor::needed() const noexcept {
    return next_size() - buffer_.size();
}

Result<std::vector<std::byte>> Decryptor::decrypt(std::span<const std::byte> bytes) {
    std::vector<std::byte> plain;
    while (!bytes.empty()) {
        if (has_ended_) {
            return broken("bytes after its last record");
        }
        const auto taken = std::min(bytes.size(), needed());
        buffer_.insert(buffer_.end(), bytes.begin(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(taken));
        bytes = bytes.subspan(taken);
        if (!has_header_) {
            if (buffer_.size() == kHeaderBytes) {
                (void)crypto_secretstream_xchacha20poly1305_init_pull(&state_, raw(buffer_.data()),
                                                                      raw(key_.data()));
                has_header_ = true;
                buffer_.clear();
            }
            continue;
        }
        if (buffer_.size() < kLengthBytes) {
            continue;
        }
        const auto length = read_length(buffer_.data());
        if (length > kMaxRecord) {
            return broken("a record of " + std::to_string(length) +
                          " bytes, so it was changed on its way");
        }
        if (needed() > 0) {
            continue;
        }
        const auto before = plain.size();
        plain.resize(before + length);
        unsigned char tag = 0;
        if (crypto_secretstream_xchacha20poly1305_pull(&state_, raw(plain.data() + before), nullptr,
                                                       &tag, raw(buffer_.data() + kLengthBytes),
                                                       length + kExtraBytes, nullptr, 0) != 0) {
            return broken("a record was changed on its way, or is not the next one");
        }
        has_ended_ = tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
        buffer_.clear();
    }
    return plain;
}

}  // namespace hvd::launch::wire
