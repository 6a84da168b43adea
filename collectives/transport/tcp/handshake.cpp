// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/handshake.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/bytes.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <sodium.h>

namespace hvd::coll::net {
namespace {

constexpr std::uint16_t kVersion = 3;
constexpr std::string_view kMagic = "HVDLINK\n";
constexpr std::size_t kHostBytes = 64;
constexpr std::size_t kMacBytes = crypto_auth_hmacsha256_BYTES;
constexpr std::size_t kHelloBytes = 8 + 2 + 1 + 4 + 4 + 4 + kNonceBytes + kHostBytes;
constexpr std::size_t kAnswerBytes = 8 + 4 + kNonceBytes + kHostBytes;
constexpr std::size_t kProofBytes = kMacBytes;
constexpr std::size_t kWelcomeBytes = 8;
constexpr std::string_view kListenerLabel = "horovod connection: listener";
constexpr std::string_view kConnectorLabel = "horovod connection: connector";

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

const unsigned char* raw(const std::byte* bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes);
}

void write_host(ByteWriter& writer, std::string_view host) {
    std::array<std::byte, kHostBytes> field{};
    const auto size = std::min(host.size(), kHostBytes - 1);
    std::ranges::copy(bytes_of(host.substr(0, size)), field.begin());
    writer.raw(field);
}

std::string read_host(ByteReader& reader) {
    const auto field = reader.raw(kHostBytes);
    std::string host;
    for (const auto byte : field) {
        const auto character = static_cast<char>(byte);
        if (character == 0) {
            break;
        }
        host += character > ' ' && character < 0x7f ? character : '?';  // it is printed
    }
    return host;
}

Error refused(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

}  // namespace

Handshake::Handshake(const WorldKey& key, RankIdentity self, const Nonce& nonce)
    : key_(key), self_(std::move(self)), nonce_(nonce) {}

Handshake Handshake::connecting(const WorldKey& key,
                                RankIdentity self,
                                int to,
                                Purpose purpose,
                                const Nonce& nonce) {
    Handshake handshake(key, std::move(self), nonce);
    handshake.peer_.rank = to;
    handshake.purpose_ = purpose;
    handshake.state_ = State::expect_answer;
    ByteWriter hello;
    hello.raw(bytes_of(kMagic));
    hello.number(kVersion);
    hello.number(purpose);
    hello.number(static_cast<std::int32_t>(handshake.self_.rank));
    hello.number(static_cast<std::int32_t>(to));
    hello.number(handshake.self_.pid);
    hello.raw(nonce);
    write_host(hello, handshake.self_.host);
    handshake.transcript_ = hello.bytes();
    handshake.out_ = hello.take();
    return handshake;
}

Handshake Handshake::listening(const WorldKey& key, RankIdentity self, const Nonce& nonce) {
    return Handshake(key, std::move(self), nonce);
}

std::vector<std::byte> Handshake::take_output() {
    return std::exchange(out_, {});
}

std::size_t Handshake::expected() const noexcept {
    switch (state_) {
        case State::expect_hello: return kHelloBytes;
        case State::expect_answer: return kAnswerBytes + kMacBytes;
        case State::expect_proof: return kProofBytes;
        case State::expect_welcome: return kWelcomeBytes;
        case State::answered:
        case State::done: return 0;
    }
    return 0;
}

std::size_t Handshake::needed() const noexcept {
    return expected() - std::min(expected(), in_.size());
}

Status Handshake::feed(std::span<const std::byte> bytes) {
    HVD_ASSERT(bytes.size() <= needed(), "what follows a handshake is not its own");
    in_.insert(in_.end(), bytes.begin(), bytes.end());
    if (state_ != State::expect_proof) {
        const auto compared = std::min(in_.size(), kMagic.size());
        if (!std::equal(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(compared),
                        bytes_of(kMagic).begin())) {
            return refused("another program is at the other end");
        }
    }
    if (needed() != 0 || in_.empty()) {
        return ok();
    }
    switch (state_) {
        case State::expect_hello: return take_hello();
        case State::expect_answer: return take_answer();
        case State::expect_proof: return take_proof();
        case State::expect_welcome: return take_welcome();
        case State::answered:
        case State::done: break;
    }
    return ok();
}

Status Handshake::take_hello() {
    const auto hello = std::exchange(in_, {});
    ByteReader reader(hello);
    (void)reader.raw(kMagic.size());
    const auto version = reader.number<std::uint16_t>();
    if (version != kVersion) {
        return Error{Errc::unsupported, "a peer speaks version " + std::to_string(version) +
                                            " of the connection's protocol, this library version " +
                                            std::to_string(kVersion)};
    }
    const auto purpose = reader.number<std::uint8_t>();
    peer_.rank = reader.number<std::int32_t>();
    const auto to = reader.number<std::int32_t>();
    peer_.pid = reader.number<std::int32_t>();
    (void)reader.raw(kNonceBytes);
    peer_.host = read_host(reader);
    if (purpose >= kPurposes || to != self_.rank || reader.failed()) {
        return refused("a connection for rank " + std::to_string(to) + " came to rank " +
                       std::to_string(self_.rank));
    }
    purpose_ = static_cast<Purpose>(purpose);
    ByteWriter answer;
    answer.raw(bytes_of(kMagic));
    answer.number(self_.pid);
    answer.raw(nonce_);
    write_host(answer, self_.host);
    transcript_ = hello;
    transcript_.insert(transcript_.end(), answer.bytes().begin(), answer.bytes().end());
    answer.raw(mac(kListenerLabel));
    out_ = answer.take();
    state_ = State::expect_proof;
    return ok();
}

Status Handshake::take_answer() {
    const auto answer = std::exchange(in_, {});
    const auto signed_part = std::span(answer).first(kAnswerBytes);
    transcript_.insert(transcript_.end(), signed_part.begin(), signed_part.end());
    ByteReader reader(answer);
    (void)reader.raw(kMagic.size());
    peer_.pid = reader.number<std::int32_t>();
    (void)reader.raw(kNonceBytes);
    peer_.host = read_host(reader);
    const auto expected_mac = mac(kListenerLabel);
    if (crypto_verify_32(raw(reader.rest().data()), raw(expected_mac.data())) != 0) {
        return refused("a process that does not know the world's key is at the other end");
    }
    state_ = State::answered;
    return ok();
}

void Handshake::prove() {
    HVD_ASSERT(is_answered(), "a proof follows an answer");
    const auto proof = mac(kConnectorLabel);
    out_.assign(proof.begin(), proof.end());
    state_ = State::expect_welcome;
}

Status Handshake::take_proof() {
    const auto proof = std::exchange(in_, {});
    const auto expected_mac = mac(kConnectorLabel);
    if (crypto_verify_32(raw(proof.data()), raw(expected_mac.data())) != 0) {
        return refused("a process that does not know the world's key has connected");
    }
    const auto welcome = bytes_of(kMagic);
    out_.assign(welcome.begin(), welcome.end());
    state_ = State::done;
    return ok();
}

Status Handshake::take_welcome() {
    in_.clear();
    state_ = State::done;
    return ok();
}

Handshake::Mac Handshake::mac(std::string_view label) const {
    static_assert(kMacBytes == std::tuple_size_v<Mac> &&
                  kWorldKeyBytes == crypto_auth_hmacsha256_KEYBYTES);
    crypto_auth_hmacsha256_state state;
    Mac result{};
    (void)crypto_auth_hmacsha256_init(&state, raw(key_.data()), key_.size());
    (void)crypto_auth_hmacsha256_update(&state, raw(bytes_of(label).data()), label.size());
    (void)crypto_auth_hmacsha256_update(&state, raw(transcript_.data()), transcript_.size());
    (void)crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(result.data()));
    return result;
}

}  // namespace hvd::coll::net
