// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/seal.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <sodium.h>

namespace hvd::launch::wire {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == sizeof(Key));

using Nonce = std::array<unsigned char, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES>;

/// The key is used for one direction of one connection, so the number of a record never returns.
Nonce nonce_of(std::uint64_t record) noexcept {
    Nonce nonce{};
    std::memcpy(nonce.data(), &record, sizeof record);
    return nonce;
}

const unsigned char* raw(const std::byte* bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes);
}

unsigned char* raw(std::byte* bytes) noexcept {
    return reinterpret_cast<unsigned char*>(bytes);
}

}  // namespace

std::vector<std::byte> Sealer::seal(std::span<const std::byte> first,
                                    std::span<const std::byte> second) {
    const auto size = first.size() + second.size();
    const auto records = (size + kMaxRecord - 1) / kMaxRecord;
    std::vector<std::byte> sealed(size + records * (kLengthBytes + kTagBytes));
    auto* to = sealed.data();
    for (std::size_t from = 0; from < size; from += kMaxRecord) {
        const auto length = static_cast<std::uint32_t>(std::min(size - from, kMaxRecord));
        std::memcpy(to, &length, kLengthBytes);
        auto* text = to + kLengthBytes;
        // A piece may have its begin in the first part and its end in the second.
        std::size_t filled = 0;
        if (from < first.size()) {
            filled = std::min<std::size_t>(length, first.size() - from);
            std::memcpy(text, first.data() + from, filled);
        }
        if (filled < length) {
            std::memcpy(text + filled, second.data() + (from + filled - first.size()),
                        length - filled);
        }
        const auto nonce = nonce_of(count_++);
        (void)crypto_aead_xchacha20poly1305_ietf_encrypt(raw(text), nullptr, raw(text), length,
                                                         raw(to), kLengthBytes, nullptr,
                                                         nonce.data(), raw(key_.data()));
        to = text + length + kTagBytes;
    }
    return sealed;
}

Result<std::vector<std::byte>> Opener::open(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    std::vector<std::byte> plain;
    std::size_t taken = 0;
    while (buffer_.size() - taken >= kLengthBytes) {
        const auto* record = buffer_.data() + taken;
        std::uint32_t length = 0;
        std::memcpy(&length, record, kLengthBytes);
        if (length == 0 || length > kMaxRecord) {
            return Error{Errc::invalid_argument, "sealed stream: a record of " +
                                                     std::to_string(length) +
                                                     " bytes, so it was changed on its way"};
        }
        const auto whole = kLengthBytes + length + kTagBytes;
        if (buffer_.size() - taken < whole) {
            break;
        }
        const auto nonce = nonce_of(count_++);
        const auto before = plain.size();
        plain.resize(before + length);
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(
                raw(plain.data() + before), nullptr, nullptr, raw(record + kLengthBytes),
                length + kTagBytes, raw(record), kLengthBytes, nonce.data(),
                raw(key_.data())) != 0) {
            return Error{Errc::invalid_argument,
                         "sealed stream: a record was changed on its way, or is not the next one"};
        }
        taken += whole;
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken));
    return plain;
}

}  // namespace hvd::launch::wire
