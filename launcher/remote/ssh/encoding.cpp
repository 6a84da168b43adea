// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/encoding.hpp"

#include <algorithm>
#include <array>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/sha.h>

namespace hvd::launch::ssh {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kBitsPerDigit = 6;
constexpr unsigned kBitsPerByte = 8;

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
    std::string bytes;
    std::uint32_t bits = 0;
    unsigned count = 0;
    bool has_ended = false;
    for (const char c : text) {
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            continue;
        }
        if (c == '=') {
            has_ended = true;
            continue;
        }
        const auto digit = kAlphabet.find(c);
        if (digit == std::string_view::npos || has_ended) {
            return std::nullopt;
        }
        bits = (bits << kBitsPerDigit) | static_cast<std::uint32_t>(digit);
        count += kBitsPerDigit;
        if (count >= kBitsPerByte) {
            count -= kBitsPerByte;
            bytes += static_cast<char>((bits >> count) & 0xFFU);
        }
    }
    return bytes;
}

std::string encode_base64(std::string_view bytes) {
    constexpr std::size_t kGroup = 3;
    std::string text(4 * ((bytes.size() + kGroup - 1) / kGroup) + 1, '\0');
    const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       bytes_of(bytes), static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

std::string fingerprint(std::string_view blob) {
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    (void)::SHA256(bytes_of(blob), blob.size(), reinterpret_cast<unsigned char*>(digest.data()));
    auto text = encode_base64(digest);
    text.erase(text.find_last_not_of('=') + 1);
    return "SHA256:" + text;
}

void HmacSha1::Free::operator()(evp_mac_ctx_st* context) const noexcept {
    ::EVP_MAC_CTX_free(context);
}

HmacSha1::HmacSha1() {
    auto* hmac = ::EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    if (hmac == nullptr) {
        return;  // the machine's OpenSSL configuration leaves us none: nothing will match
    }
    context_.reset(::EVP_MAC_CTX_new(hmac));
    ::EVP_MAC_free(hmac);  // the context holds it too
    std::string name = "SHA1";
    const std::array<OSSL_PARAM, 2> parameters{
        ::OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name.data(), 0),
        ::OSSL_PARAM_construct_end()};
    (void)::EVP_MAC_CTX_set_params(context_.get(), parameters.data());
}

std::string_view HmacSha1::of(std::string_view key, std::string_view text) {
    std::size_t size = 0;
    const bool is_made =
        context_ != nullptr &&
        ::EVP_MAC_init(context_.get(), bytes_of(key), key.size(), nullptr) == 1 &&
        ::EVP_MAC_update(context_.get(), bytes_of(text), text.size()) == 1 &&
        ::EVP_MAC_final(context_.get(), reinterpret_cast<unsigned char*>(digest_.data()), &size,
                        digest_.size()) == 1;
    return {digest_.data(), is_made ? size : 0};
}

std::optional<std::uint32_t> FieldReader::number() {
    if (rest_.size() < sizeof(std::uint32_t)) {
        rest_ = {};
        return std::nullopt;
    }
    std::uint32_t value = 0;
    for (const char c : rest_.substr(0, sizeof value)) {
        value = (value << kBitsPerByte) | static_cast<unsigned char>(c);
    }
    rest_.remove_prefix(sizeof value);
    return value;
}

std::optional<std::string> FieldReader::text() {
    const auto size = number();
    if (!size || *size > rest_.size()) {
        rest_ = {};
        return std::nullopt;
    }
    std::string value(rest_.substr(0, *size));
    rest_.remove_prefix(*size);
    return value;
}

bool FieldReader::skip(std::string_view expected) {
    if (!rest_.starts_with(expected)) {
        rest_ = {};
        return false;
    }
    rest_.remove_prefix(expected.size());
    return true;
}

std::string number_field(std::uint32_t number) {
    std::string field;
    for (unsigned shift = 4 * kBitsPerByte; shift > 0; shift -= kBitsPerByte) {
        field += static_cast<char>((number >> (shift - kBitsPerByte)) & 0xFFU);
    }
    return field;
}

std::string text_field(std::string_view text) {
    return number_field(static_cast<std::uint32_t>(text.size())) + std::string(text);
}

std::string key_type(std::string_view blob) {
    return FieldReader(blob).text().value_or("");
}

bool is_usable_key_type(std::string_view type) {
    constexpr std::array<std::string_view, 4> kUsable{"ssh-ed25519", "ecdsa-sha2-nistp256",
                                                      "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"};
    return std::ranges::find(kUsable, type) != kUsable.end();
}

}  // namespace hvd::launch::ssh
